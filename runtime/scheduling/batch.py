"""Batches of a plan, and their conversion to the arrays of a launch (`Work`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from runtime.core.work import NO_BLOCK, Breach, Claims, Ints, Words, Work
from runtime.memory.kv.sequence_tags import SequenceTable, block_edges, flat_ints, flush_hashes, layout_of
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
        key = row.request.submit.model_key
        if key in models:
            models[key].append(row)
        else:
            models[key] = [row]
    return tuple(Batch(key, tuple(of_model)) for key, of_model in models.items())


@dataclass(frozen=True, slots=True)
class Bound:
    """The launch of a batch."""

    work: Work
    reads: Claims
    """The tags that the requests expect in their KV."""
    writes: list[int]
    """Ids of the blocks that the launch writes."""


def bind(batch: Batch, step: int, *, deep: bool = False) -> Bound:
    """Convert a batch to the arrays of a launch. Block tables end with the context, so no slot past it can be read.

    `deep`: the device compares every slot that the batch reads, not only the cached sums of the blocks.
    """
    rows = batch.rows
    requests, lengths = [request for request, _ in rows], [tokens for _, tokens in rows]
    starts = np.asarray([request.computed for request in requests])
    row_starts, positions = layout_of(starts, lengths)
    if len(positions) == len(rows):
        token_ids = [request.tokens[request.computed] for request in requests]
    else:
        token_ids = []
        for request, length in rows:
            token_ids += request.tokens[request.computed : request.computed + length]
    context = starts + np.asarray(lengths)
    tables, prefix_hashes, reads = _claims(requests, context, deep)
    writes, slots = slots_of(tables, positions, row_starts, requests[0].tags.table.block_tokens)
    work = Work(
        step=step,
        model_key=batch.model_key,
        request_ids=reads.request_ids,
        token_ids=flat_ints(token_ids),
        positions=positions,
        slots=slots,
        row_starts=row_starts,
        context_lens=context,
        block_tables=tables,
        sampling=tuple(
            [one.submit.sampling if length == len(one.tokens) - one.computed else None for one, length in rows]
        ),
        prefix_hashes=prefix_hashes,
    )
    return Bound(work, reads, writes.tolist())


def read_back(plane: TagPlane, requests: Sequence[Request]) -> tuple[Breach, ...]:
    """Compare every computed slot of `requests` with their own tokens now, without a launch. Return the breaches."""
    if not requests:
        return ()
    tables, _, reads = _claims(requests, None, deep=True)
    return plane.compare(tables, reads)


def tables_of(requests: Sequence[Request]) -> tuple[SequenceTable, Ints]:
    """Return the table of the sequences of `requests`, with their hashes computed, and their rows in it."""
    flush_hashes([request.tags for request in requests])
    rows = [request.tags.hold(request.blocks, request.generations) for request in requests]
    return requests[0].tags.table, np.asarray(rows)


def _claims(requests: Sequence[Request], context: Ints | None, deep: bool) -> tuple[Ints, Words, Claims]:
    """Return the block tables of `requests` [rows, blocks], their prefix hashes [rows], and the claims on their KV.

    Tables are cut to what `context` [rows] tokens need; with None they are whole.
    """
    table, rows = tables_of(requests)
    held = [len(request.blocks) for request in requests]
    width = max(held)
    if context is not None:
        ends = -(-context // table.block_tokens)
        needed: list[int] = ends.tolist()
        width = max(needed)
        table.widen(width)
    tables, generations = table.blocks[rows, :width], table.generations[rows, :width]
    if context is not None and needed != held:
        behind = np.arange(width) >= ends[:, None]
        tables[behind], generations[behind] = NO_BLOCK, 0
    claims = Claims(
        request_ids=tuple([request.id for request in requests]),
        generations=generations,
        sums=table.sums[rows, :width],
        tokens=[request.tags.tokens for request in requests],
        deep=[deep or request.needs_full_check for request in requests],
    )
    return tables, table.prefix_hashes[rows], claims


def slots_of(tables: Ints, positions: Ints, row_starts: Ints, block_tokens: int) -> tuple[Ints, Ints]:
    """Return the blocks that the new tokens fall into, in order, and the KV slot of each new token ([tokens])."""
    blocks = positions // block_tokens
    offsets = positions - blocks * block_tokens
    rows = np.arange(len(tables))
    if len(rows) == len(positions):
        written = tables[rows, blocks]
        return written, written * block_tokens + offsets
    of_tokens = tables[rows.repeat(row_starts[1:] - row_starts[:-1]), blocks]
    return of_tokens[block_edges(offsets, row_starts)], of_tokens * block_tokens + offsets
