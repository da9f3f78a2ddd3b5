"""The tag plane: what each KV slot holds, as numbers that two parties compute apart and that can therefore disagree.

    lineage(p) = sum over i <= p of mix(token[i], i)      running hash of a sequence up to position p (mod 2**64)
    tag(p)     = scramble(lineage(p))                     depends on the whole prefix, as the KV of p does
    sum(block) = sum over its slots of tag * (offset+1)   order matters: two slots swapped change it

The device stamps tags through the slots and positions that it was given. The request computes its claims from its
own tokens. Before a launch writes, every block it will read is compared: stale, freed, unwritten, moved or foreign KV
shows, with torch or without. (Idea: shadow memory; the bugs it must see are M1, M3, M7, M10 in `research/runtime.md`.)
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from runtime.core.work import Breach, Claim, Ints, Work

_MASK = (1 << 64) - 1
_TOKEN = 0x9E3779B97F4A7C15
_PLACE = 0xD1B54A32D192ED03
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB

Words = npt.NDArray[np.uint64]


class TagPlane:
    """Tags, block sums and generations of one KV pool; lives beside K and V and is moved with them.

    `blocks` counts real blocks; writes to any block past them (the dummy that padding goes to) leave no tag.
    """

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self._blocks = blocks
        self._tags: Words = np.zeros(blocks * block_tokens, dtype=np.uint64)
        self._sums: Words = np.zeros(blocks, dtype=np.uint64)
        self._generations: Ints = np.zeros(blocks, dtype=np.int64)
        self._weights: Words = np.arange(1, block_tokens + 1, dtype=np.uint64)

    def hand_out(self, blocks: Sequence[int]) -> list[int]:
        """Blocks get a new owner: wiped, and one generation on. Returns their generations."""
        at = np.asarray(blocks, dtype=np.int64)
        self._generations[at] += 1
        self._sums[at] = 0
        self._tags.reshape(self._blocks, self.block_tokens)[at] = 0
        generations: list[int] = self._generations[at].tolist()
        return generations

    @property
    def rows(self) -> Words:
        """[blocks, block_tokens]: the tags themselves, for whoever moves K and V and must move these with them."""
        return self._tags.reshape(self._blocks, self.block_tokens)

    def resum(self, blocks: Sequence[int]) -> None:
        """Tags of `blocks` came by a copy and not by a launch: make their sums of what lies there now."""
        at = np.asarray(blocks, dtype=np.int64)
        self._sums[at] = (self.rows[at] * self._weights).sum(axis=1, dtype=np.uint64)

    def verify(self, work: Work, reads: Sequence[Claim]) -> tuple[Breach, ...]:
        """Compare every block that `work` will read with what its requests claim. Empty when all is well."""
        counts = [len(claim.sums) for claim in reads]
        total = sum(counts)
        if not total:
            return ()
        # One pass over Python numbers each: an array a row cost three times as much at 32 rows.
        tables = (table[:n] for table, n in zip(work.block_tables, counts, strict=True))
        claimed = (claim.generations[:n] for claim, n in zip(reads, counts, strict=True))
        blocks = np.fromiter(chain.from_iterable(tables), np.int64, total)
        generations = np.fromiter(chain.from_iterable(claimed), np.int64, total)
        sums = np.fromiter(chain.from_iterable(claim.sums for claim in reads), np.uint64, total)
        given_away = self._generations[blocks] != generations
        found = self._sums[blocks]
        self._cut_tails(found, blocks, reads, counts)
        other = found != sums
        if not (given_away.any() or other.any()):
            return ()
        rows = np.repeat(np.arange(len(reads)), counts)
        firsts = np.cumsum([0, *counts[:-1]])
        return tuple(
            Breach(
                request_id=reads[rows[at]].request_id,
                block=int(blocks[at]),
                index=int(at - firsts[rows[at]]),
                what="generation" if given_away[at] else "content",
            )
            for at in np.flatnonzero(given_away | other).tolist()
        )

    def _cut_tails(self, found: Words, blocks: Ints, reads: Sequence[Claim], counts: Sequence[int]) -> None:
        """Sum only the claimed slots of part-full last blocks: a failed launch may have stamped those behind them."""
        used = np.asarray([claim.tokens for claim in reads], np.int64) % self.block_tokens
        lasts = (np.cumsum(counts) - 1)[used > 0]
        slots = np.arange(self.block_tokens)
        tags = self._tags.reshape(self._blocks, self.block_tokens)[blocks[lasts]]
        weighted = np.where(slots < used[used > 0][:, None], tags * self._weights, np.uint64(0))
        found[lasts] = weighted.sum(axis=1, dtype=np.uint64)

    def stamp(self, work: Work) -> None:
        """Write the tags of this launch's new tokens where the device writes their KV. Safe to repeat."""
        steps = _mix(work.token_ids, work.positions)
        running = np.cumsum(steps, dtype=np.uint64)
        starts = work.row_starts[:-1]
        lengths = np.diff(work.row_starts)
        before_row = running[starts] - steps[starts]
        lineages = np.asarray(work.lineages, np.uint64)
        tags = _scramble(running + np.repeat(lineages - before_row, lengths))
        slots, real = work.slots, work.slots < len(self._tags)
        if not real.all():
            slots, tags = slots[real], tags[real]
        weights = self._weights[slots % self.block_tokens]
        np.add.at(self._sums, slots // self.block_tokens, (tags - self._tags[slots]) * weights)
        self._tags[slots] = tags


class TagLine:
    """A request's own side: its lineage and block sums, from its own tokens, as far as they are computed."""

    __slots__ = ("block_tokens", "lineage", "sums", "tokens")

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.tokens = 0
        self.lineage = 0
        self.sums: list[int] = []

    def extend(self, tokens: Sequence[int]) -> None:
        """`tokens` follow those already counted; their KV has been computed."""
        if len(tokens) == 1:
            self._add(tokens[0])
            return
        positions = np.arange(self.tokens, self.tokens + len(tokens))
        running = np.cumsum(_mix(np.asarray(tokens, np.int64), positions), dtype=np.uint64) + np.uint64(self.lineage)
        weighted = _scramble(running) * (positions % self.block_tokens + 1).astype(np.uint64)
        blocks = positions // self.block_tokens
        edges = np.flatnonzero(np.diff(blocks, prepend=blocks[:1] - 1))
        for block, part in zip(blocks[edges].tolist(), np.add.reduceat(weighted, edges).tolist(), strict=True):
            if block == len(self.sums):
                self.sums.append(0)
            self.sums[block] = (self.sums[block] + part) & _MASK
        self.lineage = int(running[-1])
        self.tokens += len(tokens)

    def _add(self, token: int) -> None:
        block, offset = divmod(self.tokens, self.block_tokens)
        self.lineage = (self.lineage + _scramble_one((token * _TOKEN + self.tokens * _PLACE) & _MASK)) & _MASK
        if block == len(self.sums):
            self.sums.append(0)
        self.sums[block] = (self.sums[block] + _scramble_one(self.lineage) * (offset + 1)) & _MASK
        self.tokens += 1


def _mix(tokens: Ints, positions: Ints) -> Words:
    return _scramble(tokens.astype(np.uint64) * np.uint64(_TOKEN) + positions.astype(np.uint64) * np.uint64(_PLACE))


def _scramble(words: Words) -> Words:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(_FIRST)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(_SECOND)
    return words ^ (words >> np.uint64(31))


def _scramble_one(word: int) -> int:
    word = ((word ^ (word >> 30)) * _FIRST) & _MASK
    word = ((word ^ (word >> 27)) * _SECOND) & _MASK
    return word ^ (word >> 31)
