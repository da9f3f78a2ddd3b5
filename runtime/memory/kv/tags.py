"""The tag plane: one number for the contents of each KV slot, computed independently by the device and by the request.

    prefix_hash(p) = sum over i <= p of mix(token[i], i)     running hash of a sequence up to position p (mod 2**64)
    tag(p)         = scramble(prefix_hash(p))                depends on the whole prefix, as the KV of p does
    sum(block)     = sum over its slots of tag * (offset+1)  two swapped slots change it

The device stamps tags through the slots and positions of a launch. The request computes its claims from its own tokens.
Before a launch writes, the sum of every block that it reads is compared with the claim, so stale, freed, unwritten,
moved and foreign KV is found, with torch or without. Every slot is read after a prefill, a prefix hit and a swap, at
the end of a request, in audits, and while a fault is armed. The idea is that of shadow memory; it must find the bugs
M1, M3, M7, M10 and M13 of tests/planted/virtual.
"""

from collections.abc import Sequence

import numpy as np

from runtime.core.work import NO_BLOCK, Breach, Claims, Ints, Words, Work
from runtime.memory.kv.sequence_tags import SequenceTable, SequenceTags, prefix_hashes_of, tags_of

__all__ = ["SequenceTable", "SequenceTags", "TagPlane"]

_FEW = 14
"""Up to so many blocks are handed out one by one, which is faster than by arrays."""


class TagPlane:
    """Tags [blocks, block_tokens], sums [blocks] and generations [blocks] of one KV pool, moved together with K and V.

    `blocks` counts real blocks. Writes to a block behind them (the dummy block that takes padding) leave no tag.
    """

    def __init__(self, blocks: int, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self._tags: Words = np.zeros((blocks, block_tokens), dtype=np.uint64)
        self._flat_tags = self._tags.reshape(-1)
        self._sums: Words = np.zeros(blocks + 1, dtype=np.uint64)
        self._generations: Ints = np.zeros(blocks + 1, dtype=np.int64)
        """The last of the sums and of the generations stays 0: NO_BLOCK finds it."""
        self._weights: Words = np.arange(1, block_tokens + 1, dtype=np.uint64)
        self._parts = np.tril(np.tile(self._weights, (block_tokens, 1)), -1)
        """[n, block_tokens]: the weights of the first n slots, and 0 for the rest."""
        empty = bytes(block_tokens * self._tags.itemsize)
        flat = self._flat_tags.view(np.uint8).data
        self._views = self._generations.data, self._sums.data, flat, empty
        """Byte views for changing a few blocks one by one, which takes a fifth of the time of array operations."""

    def hand_out(self, blocks: Sequence[int]) -> list[int]:
        """Wipe `blocks` for a new owner and increase their generations. Return the generations."""
        if len(blocks) > _FEW:
            at = np.asarray(blocks, dtype=np.int64)
            generations = self._generations[at] + 1
            self._generations[at] = generations
            self._sums[at] = 0
            self._tags[at] = 0
            known: list[int] = generations.tolist()
            return known
        ages, sums, tags, empty = self._views
        width, given = len(empty), []
        for block in blocks:
            ages[block] = generation = ages[block] + 1
            sums[block] = 0
            tags[block * width : block * width + width] = empty
            given.append(generation)
        return given

    @property
    def rows(self) -> Words:
        """The tags [blocks, block_tokens], for code that moves K and V."""
        return self._tags

    @property
    def slots(self) -> Words:
        """The tags [blocks * block_tokens], by slot."""
        return self._flat_tags

    def resum(self, blocks: Sequence[int]) -> None:
        """Compute the sums of `blocks` from their tags, after a copy has written them."""
        at = np.asarray(blocks, dtype=np.int64)
        self._sums[at] = self._read(at)

    def verify(self, work: Work, reads: Claims) -> tuple[Breach, ...]:
        """Compare every block that `work` reads with the claims of its requests. Return the breaches."""
        return self.compare(work.block_tables, reads)

    def compare(self, tables: Ints, reads: Claims) -> tuple[Breach, ...]:
        """Compare the blocks of `tables` [rows, blocks] with the claims `reads` of these rows. Return the breaches.

        Slots behind the claimed tokens are not compared: a failed launch may have stamped them. Rows that are deep have
        every slot read, since a kept sum only follows writes that go through this plane.
        """
        found = self._sums[tables]
        given_away = self._generations[tables] != reads.generations
        if True in reads.deep:
            at = np.nonzero((tables != NO_BLOCK) & np.asarray(reads.deep)[:, None])
            found[at] = self._read(tables[at])
        other = found != reads.sums
        if np.count_nonzero(other):
            self._cut_tails(found, tables, np.asarray(reads.tokens), np.nonzero(other))
            other = found != reads.sums
        other |= given_away
        if not np.count_nonzero(other):
            return ()
        return tuple(
            Breach(
                request_id=reads.request_ids[row],
                block=int(tables[row, index]),
                index=index,
                what="generation" if given_away[row, index] else "content",
            )
            for row, index in np.argwhere(other).tolist()
        )

    def _cut_tails(self, found: Words, tables: Ints, tokens: Ints, cells: tuple[Ints, ...]) -> None:
        """Sum only the claimed slots of those `cells` that `tokens` [rows] do not fill, in place."""
        rows, indices = cells
        used = tokens[rows] - indices * self.block_tokens
        part = used < self.block_tokens
        rows, indices = rows[part], indices[part]
        weights = self._parts[np.maximum(used[part], 0)]
        found[rows, indices] = (self._tags[tables[rows, indices]] * weights).sum(axis=1, dtype=np.uint64)

    def _read(self, blocks: Ints) -> Words:
        """Compute sums from all slots of `blocks`. A matrix product takes a third of the time of a sum."""
        found: Words = self._tags.take(blocks, 0).dot(self._weights)
        return found

    def sums_of(self, blocks: Sequence[int]) -> Words:
        """Return the kept sum of each of `blocks`."""
        found: Words = self._sums[np.asarray(blocks, np.int64)]
        return found

    def stamp(self, work: Work) -> None:
        """Write the tags of this launch's new tokens where the device writes their KV. Safe to repeat."""
        self._put(self.tags_of(work), work.slots)

    def tags_of(self, work: Work) -> Words:
        """The tag of each new token of `work` [tokens]."""
        return tags_of(prefix_hashes_of(work.token_ids, work.positions, work.row_starts, work.prefix_hashes))

    def _put(self, tags: Words, slots: Ints) -> None:
        if np.maximum.reduce(slots) >= self._flat_tags.size:
            real = slots < self._flat_tags.size
            slots, tags = slots[real], tags[real]
        blocks = slots // self.block_tokens
        offsets = slots - blocks * self.block_tokens
        np.add.at(self._sums, blocks, (tags - self._flat_tags[slots]) * self._weights[offsets])
        self._flat_tags[slots] = tags
