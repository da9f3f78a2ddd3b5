"""Batches of a plan, and their conversion to the arrays of a launch (`Work`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from runtime.core.work import Breach, Claim, Ints, Work
from runtime.memory.kv.sequence_tags import BlockTable, flat_ints, flush_hashes
from runtime.memory.kv.tags import TagPlane
from runtime.scheduling.request import Request


class Row(NamedTuple):
    """A row of a batch: the next `tokens` tokens of `request` that are not computed yet."""

    request: Request
    tokens: int

    @property
    def samples(self) -> bool:
        """True when the row ends with the request's last token, so that the launch samples the next one."""
        return self.tokens == self.request.remaining


class Batch(NamedTuple):
    """Rows that run together on one model."""

    model_key: str
    rows: tuple[Row, ...]

    @property
    def tokens(self) -> int:
        """Number of new tokens in all rows."""
        return sum([tokens for _, tokens in self.rows])


def by_model(rows: Sequence[Row]) -> tuple[Batch, ...]:
    """Split rows into one batch per model. Batches are in order of their first rows."""
    models: dict[str, list[Row]] = {}
    for row in rows:
        models.setdefault(row.request.submit.model_key, []).append(row)
    return tuple(Batch(key, tuple(of_model)) for key, of_model in models.items())


@dataclass(frozen=True, slots=True)
class Bound:
    """The launch of a batch."""

    work: Work
    reads: tuple[Claim, ...]
    """[rows]: the tags that each request expects in its KV."""
    writes: tuple[int, ...]
    """Ids of the blocks that the launch writes."""


def bind(batch: Batch, step: int, block_tokens: int, *, deep: bool = False) -> Bound:
    """Convert a batch to the arrays of a launch. Block tables end with the context, so no slot past it can be read.

    `deep`: the device compares every slot that the batch reads, not only the cached sums of the blocks.
    """
    rows = batch.rows
    requests = [row.request for row in rows]
    lengths = [row.tokens for row in rows]
    starts = [request.computed for request in requests]
    row_starts = np.asarray([0, *accumulate(lengths)])
    token_ids: list[int] = []
    for request, start, length in zip(requests, starts, lengths, strict=True):
        token_ids += request.tokens[start : start + length]
    first = np.asarray(starts)
    context = first + (row_starts[1:] - row_starts[:-1])
    if len(token_ids) == len(rows):
        positions = first
    else:
        positions = np.arange(len(token_ids)) + (first - row_starts[:-1]).repeat(lengths)
    flush_hashes([request.tags for request in requests])
    tables, reads = _claims(requests, (-(-context // block_tokens)).tolist(), deep)
    writes, slots = slots_of(tables, starts, positions, lengths, block_tokens)
    work = Work(
        step=step,
        model_key=batch.model_key,
        request_ids=tuple([request.id for request in requests]),
        token_ids=flat_ints(token_ids),
        positions=positions,
        slots=slots,
        row_starts=row_starts,
        context_lens=context,
        block_tables=tables,
        sampling=tuple([row.request.submit.sampling if row.samples else None for row in rows]),
        prefix_hashes=tuple([request.tags.prefix_hash for request in requests]),
    )
    return Bound(work, reads, writes)


def read_back(plane: TagPlane, requests: Sequence[Request]) -> tuple[Breach, ...]:
    """Compare every computed slot of `requests` with their own tokens now, without a launch. Return the breaches."""
    flush_hashes([request.tags for request in requests])
    doubtful = [request for request in requests if not _is_sound(plane, request)]
    if not doubtful:
        return ()
    tables, reads = _claims(doubtful, [len(request.blocks) for request in doubtful], deep=True)
    return plane.compare(tables, reads)


def _is_sound(plane: TagPlane, request: Request) -> bool:
    """Return True when each slot of the request's blocks is as claimed, or empty. False is only a suspicion: `compare`
    decides."""
    sums = request.tags.claimed()
    blocks, generations = request.tags.held(request.blocks, request.generations)[:, : len(sums)]
    return plane.holds(blocks, generations, sums) and plane.holds_deep(blocks, sums)


def _claims(
    requests: Sequence[Request], ends: Sequence[int], deep: bool
) -> tuple[tuple[BlockTable, ...], tuple[Claim, ...]]:
    """Return the block tables of `requests`, cut to `ends` blocks each, and the claims on their KV."""
    tables, claims = [], []
    for request, end in zip(requests, ends, strict=True):
        tags, blocks = request.tags, request.blocks
        held = tags.held(blocks, request.generations)
        table = BlockTable(blocks[:end])
        table.array = held[0]
        tables.append(table)
        claims.append(Claim(request.id, held[1], tags.sums, tags.tokens, deep or request.needs_full_check))
    return tuple(tables), tuple(claims)


def slots_of(
    tables: Sequence[Sequence[int]],
    starts: Sequence[int],
    positions: Ints,
    lengths: Sequence[int],
    block_tokens: int,
) -> tuple[tuple[int, ...], Ints]:
    """Return the blocks that the new tokens fall into, and the KV slot of each new token ([tokens])."""
    if len(lengths) == len(positions):  # decode: the new token is in each table's last block, since tables are cut
        blocks = [table[-1] for table in tables]
        return tuple(blocks), np.asarray(blocks) * block_tokens + positions % block_tokens
    written: list[int] = []
    counts: list[int] = []
    for table, start, length in zip(tables, starts, lengths, strict=True):
        first, last = start // block_tokens, (start + length - 1) // block_tokens
        written += table[first : last + 1]
        if first == last:
            counts.append(length)
            continue
        counts.append(block_tokens - start % block_tokens)
        counts += [block_tokens] * (last - first - 1)
        counts.append((start + length - 1) % block_tokens + 1)
    return tuple(written), (np.asarray(written) * block_tokens).repeat(counts) + positions % block_tokens
