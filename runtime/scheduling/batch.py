"""From a plan to plain work: which requests run, how many tokens of each, and where their KV goes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from runtime.core.work import Breach, Claim, Ints, Work
from runtime.memory.kv.sequence_tags import Table, flat_ints, flush_hashes
from runtime.memory.kv.tags import TagPlane
from runtime.scheduling.request import Request


class Row(NamedTuple):
    """`tokens` more of `request`, from where it has come to."""

    request: Request
    tokens: int

    @property
    def samples(self) -> bool:
        """Whether this launch reaches the request's last token, so that the next one is drawn."""
        return self.tokens == self.request.remaining


class Batch(NamedTuple):
    """Rows that run together on one model."""

    model_key: str
    rows: tuple[Row, ...]

    @property
    def tokens(self) -> int:
        """New tokens of all rows."""
        return sum([tokens for _, tokens in self.rows])


def by_model(rows: Sequence[Row]) -> tuple[Batch, ...]:
    """One batch for each model, in order of its first row."""
    models: dict[str, list[Row]] = {}
    for row in rows:
        models.setdefault(row.request.submit.model_key, []).append(row)
    return tuple(Batch(key, tuple(of_model)) for key, of_model in models.items())


@dataclass(frozen=True, slots=True)
class Bound:
    """A batch made concrete: the work, what it reads as its requests claim it, and the blocks that it writes."""

    work: Work
    reads: tuple[Claim, ...]
    writes: tuple[int, ...]


def bind(batch: Batch, step: int, block_tokens: int, *, deep: bool = False) -> Bound:
    """Lay a batch out flat. Block tables are cut to the context, so nothing past it can be read.

    `deep`: every slot that the batch reads is to be compared, and not only the sums that are kept of them.
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
    flush_hashes([request.line for request in requests])
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
        prefix_hashes=tuple([request.line.prefix_hash for request in requests]),
    )
    return Bound(work, reads, writes)


def read_back(plane: TagPlane, requests: Sequence[Request]) -> tuple[Breach, ...]:
    """Hold every slot of what `requests` have computed against their own tokens, now and not at their next launch."""
    flush_hashes([request.line for request in requests])
    doubtful = [request for request in requests if not _is_sound(plane, request)]
    if not doubtful:
        return ()
    tables, reads = _claims(doubtful, [len(request.blocks) for request in doubtful], deep=True)
    return plane.compare(tables, reads)


def _is_sound(plane: TagPlane, request: Request) -> bool:
    """Whether each slot of its blocks is as claimed, or empty. Where not, `compare` says what is wrong, if anything."""
    sums = request.line.claimed()
    blocks, generations = request.line.held(request.blocks, request.generations)[:, : len(sums)]
    return plane.holds(blocks, generations, sums) and plane.holds_deep(blocks, sums)


def _claims(
    requests: Sequence[Request], ends: Sequence[int], deep: bool
) -> tuple[tuple[Table, ...], tuple[Claim, ...]]:
    """The block tables of `requests`, of so many blocks each, and what their own tokens say that their KV holds."""
    tables, claims = [], []
    for request, end in zip(requests, ends, strict=True):
        line, blocks = request.line, request.blocks
        held = line.held(blocks, request.generations)
        table = Table(blocks[:end])
        table.array = held[0]
        tables.append(table)
        claims.append(Claim(request.id, held[1], line.sums, line.tokens, deep or request.needs_full_check))
    return tuple(tables), tuple(claims)


def slots_of(
    tables: Sequence[Sequence[int]],
    starts: Sequence[int],
    positions: Ints,
    lengths: Sequence[int],
    block_tokens: int,
) -> tuple[tuple[int, ...], Ints]:
    """The KV slot of each new token, and the blocks they fall into."""
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
