"""The request's side of the tag plane (tags.py): prefix hash and block sums, computed for many requests at once.

    new tokens --extend--> fresh --flush_hashes(lines): one pass over arrays--> prefix_hash, and a sum for each block

The hash functions of both sides are here. They change arrays in place, since arrays are small and many.
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from runtime.core.work import Ints

Words = npt.NDArray[np.uint64]

_TOKEN, _POSITION = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_NOTHING: Words = np.zeros(0, np.uint64)


class BlockTable(list[int]):
    """Block ids as a list and as an array. Making arrays of 32 rows of 80 ids takes longer than comparing them."""

    __slots__ = ("array",)
    array: Ints


class SequenceTags:
    """The prefix hash and the block sums of one request, from its own computed tokens.

    `extend` only keeps new tokens. `flush_hashes` computes their hashes for all rows of a batch in one pass: a decode
    step of 32 rows would otherwise hash one token 32 times.
    """

    __slots__ = (
        "_blocks",
        "_fresh",
        "_generations",
        "_held",
        "_prefix_hash",
        "_sums",
        "_view",
        "block_tokens",
        "tokens",
    )

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.tokens = 0
        self._fresh: list[int] = []
        """The last tokens, whose hashes are not computed yet."""
        self._prefix_hash = 0
        self._sums: Words = _NOTHING
        self._blocks: list[int] = []
        self._generations: list[int] = []
        self._held = self._view = np.zeros((2, 0), np.int64)
        """Blocks and generations as one array [2, n]: with spare columns, and the used part."""

    def extend(self, tokens: list[int]) -> None:
        """Append `tokens`, whose KV has been computed."""
        self._fresh += tokens
        self.tokens += len(tokens)

    @property
    def prefix_hash(self) -> int:
        """The prefix hash of all tokens."""
        if self._fresh:
            flush_hashes((self,))
        return self._prefix_hash

    @property
    def sums(self) -> Sequence[int]:
        """The sum of each block, as a numpy array: a list would be converted at each launch."""
        if self._fresh:
            flush_hashes((self,))
        return self.claimed()  # type: ignore[return-value]  # an array behaves as a sequence here

    def held(self, blocks: list[int], generations: list[int]) -> Ints:
        """Return block table and generations as one array [2, blocks]. It grows in place; other changes rebuild it."""
        if self._blocks == blocks and self._generations == generations:
            return self._view
        was, now = len(self._blocks), len(blocks)
        if self._blocks == blocks[:was] and self._generations == generations[:was]:
            self._blocks += blocks[was:]
            self._generations += generations[was:]
        else:
            was, self._blocks, self._generations = 0, blocks.copy(), generations.copy()
        if now > self._held.shape[1]:
            held = np.zeros((2, now + 32), np.int64)
            held[:, :was] = self._held[:, :was]
            self._held = held
        self._held[0, was:now], self._held[1, was:now] = blocks[was:], generations[was:]
        self._view = self._held[:, :now]
        return self._view

    def claimed(self) -> Words:
        """Return the sum of each block. The hashes must be flushed."""
        blocks = -(-self.tokens // self.block_tokens)
        return self._sums[:blocks]

    def _add(self, first: int, parts: Words) -> None:
        end = first + len(parts)
        if end > len(self._sums):
            room: Words = np.zeros(2 * end, np.uint64)
            room[: len(self._sums)] = self._sums
            self._sums = room
        self._sums[first:end] += parts


def flush_hashes(lines: Sequence[SequenceTags]) -> None:
    """Compute prefix hashes and block sums of the fresh tokens of all `lines` in one pass."""
    late = [line for line in lines if line._fresh]
    if not late:
        return
    lengths = [len(line._fresh) for line in late]
    row_starts = np.asarray([0, *accumulate(lengths)])
    starts = np.asarray([line.tokens for line in late]) - lengths
    tokens = _flat([line._fresh for line in late], lengths)
    positions = np.arange(len(tokens)) + (starts - row_starts[:-1]).repeat(lengths)
    prefix_hashes = np.asarray([line._prefix_hash for line in late], np.uint64)
    running = prefix_hashes_of(tokens, positions, row_starts, prefix_hashes)
    after = running[row_starts[1:] - 1].tolist()
    claim(late, tags_of(running), positions, row_starts)
    for line, prefix_hash in zip(late, after, strict=True):
        line._prefix_hash = prefix_hash
        line._fresh = []


def claim(lines: Sequence[SequenceTags], tags: Words, positions: Ints, row_starts: Ints) -> None:
    """Add the weighted sums of each row of `tags` [tokens] to the blocks of its line. `tags` is overwritten."""
    size = lines[0].block_tokens
    blocks = positions // size
    offsets = positions - blocks * size
    begins = offsets == 0
    begins[row_starts[:-1]] = True
    edges = np.flatnonzero(begins)
    offsets += 1
    tags *= offsets.view(np.uint64)
    parts = np.add.reduceat(tags, edges)
    ends = edges.searchsorted(row_starts[1:]).tolist()
    firsts = blocks[row_starts[:-1]].tolist()
    at = 0
    for line, end, first in zip(lines, ends, firsts, strict=True):
        line._add(first, parts[at:end])
        at = end


def flat_ints(tokens: list[int]) -> Ints:
    """Convert to an array [tokens]. Tokens below 256 go through bytes, in a third of the time."""
    try:
        return np.frombuffer(bytes(tokens), np.uint8).astype(np.int64)
    except ValueError:
        return np.asarray(tokens, np.int64)


def _flat(rows: Sequence[Sequence[int]], counts: Sequence[int]) -> Ints:
    """Join the first `counts` tokens of each row."""
    joined: list[int] = []
    for row, count in zip(rows, counts, strict=True):
        joined += row if len(row) == count else row[:count]
    return flat_ints(joined)


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
