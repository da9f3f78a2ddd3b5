"""The tag plane: what each KV slot holds, as numbers that two parties compute apart and that can therefore disagree.

    lineage(p) = sum over i <= p of mix(token[i], i)      running hash of a sequence up to position p (mod 2**64)
    tag(p)     = scramble(lineage(p))                     depends on the whole prefix, as the KV of p does
    sum(block) = sum over its slots of tag * (offset+1)   order matters: two slots swapped change it

The device stamps tags through the slots and positions that it was given. The request computes its claims from its
own tokens. Before a launch writes, every block it will read is compared: stale, freed, unwritten, moved or foreign KV
shows, with torch or without. (Idea: shadow memory; the bugs it must see are M1, M3, M7, M10 in `research/runtime.md`.)
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from runtime.core.work import Breach, Claim, Ints, Work

_TOKEN, _PLACE = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)

Words = npt.NDArray[np.uint64]
_NOTHING: Words = np.zeros(0, np.uint64)


class TagPlane:
    """Tags, block sums and generations of one KV pool; lives beside K and V and is moved with them.

    `blocks` counts real blocks; writes to any block past them (the dummy that padding goes to) leave no tag.
    """

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self._tags: Words = np.zeros((blocks, block_tokens), dtype=np.uint64)
        self._flat_tags = self._tags.reshape(-1)
        self._sums: Words = np.zeros(blocks, dtype=np.uint64)
        self._generations: Ints = np.zeros(blocks, dtype=np.int64)
        self._weights: Words = np.arange(1, block_tokens + 1, dtype=np.uint64)
        self._parts = np.tril(np.tile(self._weights, (block_tokens, 1)), -1)
        """[n]: the weights of the first n slots, and 0 for the rest."""

    def hand_out(self, blocks: Sequence[int]) -> list[int]:
        """Blocks get a new owner: wiped, and one generation on. Returns their generations."""
        if len(blocks) == 1:
            return [self._hand_out(blocks[0])]
        at = np.asarray(blocks, dtype=np.int64)
        self._generations[at] += 1
        self._sums[at] = 0
        self._tags[at] = 0
        generations: list[int] = self._generations[at].tolist()
        return generations

    def _hand_out(self, block: int) -> int:
        """As it nearly always is in decode, and then five times as quick."""
        generation = int(self._generations[block]) + 1
        self._generations[block] = generation
        self._sums[block] = 0
        self._tags[block] = 0
        return generation

    @property
    def rows(self) -> Words:
        """[blocks, block_tokens]: the tags themselves, for whoever moves K and V and must move these with them."""
        return self._tags

    def resum(self, blocks: Sequence[int]) -> None:
        """Tags of `blocks` came by a copy and not by a launch: make their sums of what lies there now."""
        at = np.asarray(blocks, dtype=np.int64)
        self._sums[at] = (self.rows[at] * self._weights).sum(axis=1, dtype=np.uint64)

    def verify(self, work: Work, reads: Sequence[Claim]) -> tuple[Breach, ...]:
        """Compare every block that `work` will read with what its requests claim. Empty when all is well."""
        return self.compare(work.block_tables, reads)

    def compare(self, tables: Sequence[Sequence[int]], reads: Sequence[Claim]) -> tuple[Breach, ...]:
        """The same for block tables that no work is laid out for yet."""
        if not any(len(claim.sums) for claim in reads):
            return ()
        # As uint64 before they are joined: of small numbers numpy would make signed ones, and of both kinds floats.
        sums = [np.asarray(claim.sums, np.uint64) for claim in reads]
        blocks = [row.array if type(row) is Table else np.asarray(row, np.int64) for row in tables]
        generations = [np.asarray(claim.generations, np.int64) for claim in reads]
        return self.breaches(
            [claim.request_id for claim in reads], blocks, generations, sums, [c.tokens for c in reads]
        )

    def breaches(
        self,
        names: Sequence[str],
        tables: Sequence[Ints],
        generations: Sequence[Ints],
        sums: Sequence[Words],
        tokens: Sequence[int],
    ) -> tuple[Breach, ...]:
        """The same once more, of arrays: a table, its generations and sums each. Blocks behind the sums are not claimed
        by anybody."""
        counts = [len(each) for each in sums]
        blocks = np.concatenate([each[:n] for each, n in zip(tables, counts, strict=True)])
        given = np.concatenate([each[:n] for each, n in zip(generations, counts, strict=True)])
        given_away = self._generations[blocks] != given
        found = self._sums[blocks]
        self._cut_tails(found, blocks, tokens, counts)
        other = found != np.concatenate(sums)
        if not (given_away.any() or other.any()):
            return ()
        rows = np.repeat(np.arange(len(counts)), counts)
        firsts = np.cumsum([0, *counts[:-1]])
        return tuple(
            Breach(
                request_id=names[rows[at]],
                block=int(blocks[at]),
                index=int(at - firsts[rows[at]]),
                what="generation" if given_away[at] else "content",
            )
            for at in np.flatnonzero(given_away | other).tolist()
        )

    def _cut_tails(self, found: Words, blocks: Ints, tokens: Sequence[int], counts: Sequence[int]) -> None:
        """Sum only the claimed slots of part-full last blocks: a failed launch may have stamped those behind them."""
        size, lasts, used, at = self.block_tokens, [], [], -1
        for n, count in zip(tokens, counts, strict=True):
            at += count
            if part := n % size:
                lasts.append(at)
                used.append(part)
        if lasts:
            found[lasts] = (self._tags[blocks[lasts]] * self._parts[used]).sum(axis=1, dtype=np.uint64)

    def stamp(self, work: Work) -> None:
        """Write the tags of this launch's new tokens where the device writes their KV. Safe to repeat."""
        self.put(work.token_ids, work.positions, work.slots, work.row_starts, work.lineages)

    def put(self, tokens: Ints, positions: Ints, slots: Ints, row_starts: Ints, lineages: Sequence[int]) -> None:
        """The same, of a launch that is given flat: rows one after the other, each behind its lineage."""
        running = _running(tokens, positions, row_starts, np.asarray(lineages, np.uint64))
        tags = _scramble(running)  # in place: nobody needs the lineages any more
        if int(slots.max()) >= self._flat_tags.size:
            real = slots < self._flat_tags.size
            slots, tags = slots[real], tags[real]
        blocks = slots // self.block_tokens
        offsets = slots - blocks * self.block_tokens
        np.add.at(self._sums, blocks, (tags - self._flat_tags[slots]) * self._weights[offsets])
        self._flat_tags[slots] = tags


class Table(list[int]):
    """Block ids, with the same numbers as an array: 32 rows of 80 take longer to turn into one than to compare."""

    __slots__ = ("array",)
    array: Ints


class TagLine:
    """A request's own side: its lineage and block sums, from its own tokens, as far as they are computed.

    Tokens are only taken note of when they come. What they make is worked out when somebody asks, for all lines that he
    asks about together: one by one, a decode step would work out 32 times one number.
    """

    __slots__ = ("_blocks", "_fresh", "_generations", "_held", "_lineage", "_sums", "block_tokens", "tokens")

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.tokens = 0
        self._fresh: list[int] = []
        """The last of them, not reckoned yet."""
        self._lineage = 0
        self._sums: Words = _NOTHING
        self._blocks: list[int] = []
        self._generations: list[int] = []
        self._held = np.zeros((2, 0), np.int64)
        """These two as arrays."""

    def extend(self, tokens: Sequence[int]) -> None:
        """`tokens` follow those already counted; their KV has been computed."""
        self._fresh += tokens
        self.tokens += len(tokens)

    @property
    def lineage(self) -> int:
        """The running hash of all its tokens."""
        if self._fresh:
            reckon((self,))
        return self._lineage

    @property
    def sums(self) -> Sequence[int]:
        """Per block, as a numpy array: a list of numbers of 64 bits would have to be made one at each launch."""
        if self._fresh:
            reckon((self,))
        return self.claimed()  # type: ignore[return-value]  # it is a sequence in all but name

    def held(self, blocks: list[int], generations: list[int]) -> Ints:
        """Its table and its generations as two arrays. They are made once and added to; what is not as it was is made
        afresh."""
        was, now = len(self._blocks), len(blocks)
        if self._blocks != blocks or self._generations != generations:
            if self._blocks != blocks[:was] or self._generations != generations[:was]:
                was = 0
            if now > self._held.shape[1]:
                held = np.zeros((2, now + 32), np.int64)
                held[:, :was] = self._held[:, :was]
                self._held = held
            self._held[0, was:now], self._held[1, was:now] = blocks[was:], generations[was:]
            self._blocks, self._generations = blocks.copy(), generations.copy()
        return self._held[:, :now]

    def claimed(self) -> Words:
        """Per block, what its tokens make of it. Reckon first."""
        return self._sums[: -(-self.tokens // self.block_tokens)]

    def _add(self, first: int, parts: Words) -> None:
        end = first + len(parts)
        if end > len(self._sums):
            room: Words = np.zeros(2 * end, np.uint64)
            room[: len(self._sums)] = self._sums
            self._sums = room
        self._sums[first:end] += parts


def reckon(lines: Sequence[TagLine]) -> None:
    """Work out what the fresh tokens of all these lines make, in one pass."""
    late = [line for line in lines if line._fresh]
    if not late:
        return
    size = late[0].block_tokens
    lengths = [len(line._fresh) for line in late]
    row_starts = np.asarray([0, *accumulate(lengths)])
    starts = np.asarray([line.tokens for line in late]) - lengths
    tokens = _flat([line._fresh for line in late], lengths)
    positions = np.arange(len(tokens)) + (starts - row_starts[:-1]).repeat(lengths)
    lineages = np.asarray([line._lineage for line in late], np.uint64)
    running = _running(tokens, positions, row_starts, lineages)
    blocks = positions // size
    offsets = positions - blocks * size
    begins = offsets == 0
    begins[row_starts[:-1]] = True
    edges = np.flatnonzero(begins)
    lineages_after = running[row_starts[1:] - 1].tolist()
    offsets += 1
    weighted = _scramble(running)
    weighted *= offsets.view(np.uint64)
    parts = np.add.reduceat(weighted, edges)
    ends = edges.searchsorted(row_starts[1:]).tolist()
    firsts = blocks[row_starts[:-1]].tolist()
    at = 0
    for line, end, first, lineage in zip(late, ends, firsts, lineages_after, strict=True):
        line._add(first, parts[at:end])
        line._lineage = lineage
        line._fresh = []
        at = end


def flat_ints(tokens: list[int]) -> Ints:
    """An array of these. By way of bytes it is three times as quick, where all of them are that small."""
    try:
        return np.frombuffer(bytes(tokens), np.uint8).astype(np.int64)
    except ValueError:
        return np.asarray(tokens, np.int64)


def _flat(rows: Sequence[Sequence[int]], counts: Sequence[int]) -> Ints:
    """The first `counts` of each row, one row after the other."""
    joined: list[int] = []
    for row, count in zip(rows, counts, strict=True):
        joined += row if len(row) == count else row[:count]
    return flat_ints(joined)


def _running(tokens: Ints, positions: Ints, row_starts: Ints, lineages: Words) -> Words:
    """The lineage after each token."""
    steps = _mix(tokens, positions)
    if len(lineages) == len(steps):
        steps += lineages
        return steps
    starts = row_starts[:-1]
    running = steps.cumsum()
    offsets = lineages - (running[starts] - steps[starts])
    running += offsets.repeat(row_starts[1:] - starts)
    return running


def _mix(tokens: Ints, positions: Ints) -> Words:
    words = tokens.astype(np.uint64)
    words *= _TOKEN
    words += positions.view(np.uint64) * _PLACE
    return _scramble(words)


def _scramble(words: Words) -> Words:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014), in place: these arrays are small and many."""
    words ^= words >> _30
    words *= _FIRST
    words ^= words >> _27
    words *= _SECOND
    words ^= words >> _31
    return words
