"""The request's side of the tag plane (tags.py): block tables, block sums and prefix hashes of sequences, in arrays.

    new tokens --extend--> fresh --flush_hashes(sequences): one pass over arrays--> prefix hash, and a sum of each block

Each sequence has a row in the arrays from its first token or block until it is cleared. A batch takes its arrays by the
rows of its sequences, so a decode step builds nothing block by block.
"""

from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np

from runtime.core.work import NO_BLOCK, Ints, Words


def constants(*values: int) -> list[Words]:
    """Return each value as an array without dims: a numpy scalar makes each operation take twice as long."""
    return [np.array(value, np.uint64) for value in values]


_TOKEN, _POSITION = constants(0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
_FIRST, _SECOND = constants(0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_30, _27, _31 = constants(30, 27, 31)


_NO_ROW = -1


class SequenceTable:
    """Arrays with one row for each sequence. They double when rows or blocks run out."""

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.blocks: Ints = np.full((8, 8), NO_BLOCK)
        """[rows, blocks]: block ids in table order, NO_BLOCK behind the end; `generations` and `sums` hold 0 there."""
        self.generations: Ints = np.zeros((8, 8), np.int64)
        self.sums: Words = np.zeros((8, 8), np.uint64)
        """[rows, blocks]: the sum of the tags of each block's computed tokens."""
        self.prefix_hashes: Words = np.zeros(8, np.uint64)
        """[rows]: the prefix hash of all computed tokens."""
        self._free = list(range(7, -1, -1))

    @property
    def used(self) -> int:
        """Number of rows that sequences hold."""
        return len(self.prefix_hashes) - len(self._free)

    def take(self) -> int:
        """Return a free row, which is empty."""
        if not self._free:
            rows = len(self.prefix_hashes)
            self._grow(2 * rows, self.blocks.shape[1])
            self._free = list(range(2 * rows - 1, rows - 1, -1))
        return self._free.pop()

    def give_back(self, row: int) -> None:
        """Empty a row and make it free."""
        self.blocks[row], self.generations[row], self.sums[row], self.prefix_hashes[row] = NO_BLOCK, 0, 0, 0
        self._free.append(row)

    def widen(self, blocks: int) -> None:
        """Make room for `blocks` blocks in each row."""
        rows, width = self.blocks.shape
        if blocks > width:
            self._grow(rows, max(blocks, 2 * width))

    def _grow(self, rows: int, width: int) -> None:
        had = self.blocks.shape
        more = (0, rows - had[0]), (0, width - had[1])
        self.blocks = np.pad(self.blocks, more, constant_values=NO_BLOCK)
        self.generations, self.sums = np.pad(self.generations, more), np.pad(self.sums, more)
        self.prefix_hashes = np.pad(self.prefix_hashes, more[0])


class SequenceTags:
    """One sequence of a table: its tags are computed from its own computed tokens.

    `extend` only keeps new tokens. `flush_hashes` computes their hashes for all rows of a batch in one pass: a decode
    step of 32 rows would otherwise hash one token 32 times.
    """

    __slots__ = ("_blocks", "_fresh", "_generations", "row", "table", "tokens")

    def __init__(self, table: SequenceTable) -> None:
        self.table = table
        self.tokens = 0
        """Number of computed tokens."""
        self.row = _NO_ROW
        """The sequence's row in the table."""
        self._fresh: list[int] = []
        """The last tokens, whose hashes are not computed yet."""
        self._blocks: list[int] = []
        self._generations: list[int] = []

    def extend(self, tokens: list[int]) -> None:
        """Append `tokens`, whose KV has been computed."""
        if self.row == _NO_ROW:
            self.row = self.table.take()
        self._fresh += tokens
        self.tokens += len(tokens)

    def hold(self, blocks: list[int], generations: list[int]) -> int:
        """Make the table hold these blocks and generations, and return the row. Unchanged lists cost a comparison."""
        if self._blocks == blocks and self._generations == generations and self.row != _NO_ROW:
            return self.row
        if self.row == _NO_ROW:
            self.row = self.table.take()
        row, had, table = self.row, len(self._blocks), self.table
        same = had if self._blocks == blocks[:had] and self._generations == generations[:had] else 0
        self._blocks, self._generations = blocks.copy(), generations.copy()
        table.widen(len(blocks))
        table.blocks[row, same : len(blocks)], table.blocks[row, len(blocks) :] = blocks[same:], NO_BLOCK
        table.generations[row, same : len(blocks)], table.generations[row, len(blocks) :] = generations[same:], 0
        return row

    def clear(self) -> None:
        """Forget all tokens and blocks, and give the row back."""
        if self.row != _NO_ROW:
            self.table.give_back(self.row)
        self.tokens, self.row, self._fresh, self._blocks, self._generations = 0, _NO_ROW, [], [], []

    @property
    def prefix_hash(self) -> int:
        """The prefix hash of all tokens."""
        flush_hashes((self,))
        return 0 if self.row == _NO_ROW else int(self.table.prefix_hashes[self.row])

    @property
    def sums(self) -> list[int]:
        """The sum of each block that holds tokens."""
        flush_hashes((self,))
        blocks = -(-self.tokens // self.table.block_tokens)
        sums: list[int] = self.table.sums[self.row, :blocks].tolist()
        return sums


def flush_hashes(sequences: Sequence[SequenceTags]) -> None:
    """Compute prefix hashes and block sums of the fresh tokens of all `sequences`, of one table, in one pass."""
    late = [one for one in sequences if one._fresh]
    if not late:
        return
    table, lengths = late[0].table, [len(one._fresh) for one in late]
    rows = np.asarray([one.row for one in late])
    tokens = flat_ints(list(chain.from_iterable([one._fresh for one in late])))
    starts = np.asarray([one.tokens - length for one, length in zip(late, lengths, strict=True)])
    row_starts, positions = layout_of(starts, lengths)
    table.widen(-(-max([one.tokens for one in late]) // table.block_tokens))
    running = prefix_hashes_of(tokens, positions, row_starts, table.prefix_hashes[rows])
    table.prefix_hashes[rows] = running if len(running) == len(rows) else running[row_starts[1:] - 1]
    claim(table, rows, tags_of(running), positions, row_starts)
    for one in late:
        one._fresh = []


def claim(table: SequenceTable, rows: Ints, tags: Words, positions: Ints, row_starts: Ints) -> None:
    """Add the weighted `tags` [tokens] to the sums of their blocks in `rows`. `tags` is overwritten."""
    blocks = positions // table.block_tokens
    offsets = positions - blocks * table.block_tokens
    tags *= (offsets + 1).view(np.uint64)
    if len(rows) == len(positions):
        table.sums[rows, blocks] += tags
        return
    edges = block_edges(offsets, row_starts)
    rows = rows.repeat(row_starts[1:] - row_starts[:-1])
    table.sums[rows[edges], blocks[edges]] += np.add.reduceat(tags, edges)


def layout_of(starts: Ints, lengths: Sequence[int]) -> tuple[Ints, Ints]:
    """Return `row_starts` [rows + 1] and positions [tokens] of rows of `lengths` tokens from positions `starts` on."""
    if max(lengths) == 1:
        return np.arange(len(lengths) + 1), starts
    row_starts = np.asarray([0, *accumulate(lengths)])
    return row_starts, np.arange(row_starts[-1]) + (starts - row_starts[:-1]).repeat(lengths)


def block_edges(offsets: Ints, row_starts: Ints) -> Ints:
    """Return the indices of the tokens that are the first of their row in a block. `offsets` are those in the block."""
    begins = offsets == 0
    begins[row_starts[:-1]] = True
    return np.flatnonzero(begins)


def flat_ints(tokens: list[int]) -> Ints:
    """Convert to an array [tokens]. Tokens below 256 go through bytes, in a third of the time."""
    try:
        return np.frombuffer(bytes(tokens), np.uint8).astype(np.int64)
    except ValueError:
        return np.asarray(tokens, np.int64)


def prefix_hashes_of(tokens: Ints, positions: Ints, row_starts: Ints, prefix_hashes: Words) -> Words:
    """Return the prefix hash after each token [tokens]; `prefix_hashes` [rows] are those before the rows."""
    steps = _mix(tokens, positions)
    if len(prefix_hashes) == len(steps):
        steps += prefix_hashes
        return steps
    starts = row_starts[:-1]
    running = steps.cumsum()
    offsets = prefix_hashes - (running[starts] - steps[starts])
    running += offsets.repeat(row_starts[1:] - starts)
    return running


def _mix(tokens: Ints, positions: Ints) -> Words:
    words = tokens.astype(np.uint64)
    words *= _TOKEN
    words += _position_hashes(positions)
    return tags_of(words)


def _position_hashes(positions: Ints) -> Words:
    """Return the hash of each position. It is never 0, or token 0 at position 0 would look like an unwritten slot."""
    return positions.view(np.uint64) * _POSITION + _POSITION


def tags_of(words: Words) -> Words:
    """Apply the finaliser of splitmix64 (Steele, Lea, Flood 2014) in place."""
    words ^= words >> _30
    words *= _FIRST
    words ^= words >> _27
    words *= _SECOND
    words ^= words >> _31
    return words
