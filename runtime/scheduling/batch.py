"""From a plan to plain work: which requests run, how many tokens of each, and where their KV goes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from runtime.core.work import Claim, Ints, Work
from runtime.scheduling.request import Request


@dataclass(frozen=True, slots=True)
class Row:
    """`tokens` more of `request`, from where it has come to."""

    request: Request
    tokens: int

    @property
    def samples(self) -> bool:
        """Whether this launch reaches the request's last token, so that the next one is drawn."""
        return self.tokens == self.request.remaining


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that run together on one model."""

    model_key: str
    rows: tuple[Row, ...]

    @property
    def tokens(self) -> int:
        """New tokens of all rows."""
        return sum(row.tokens for row in self.rows)


@dataclass(frozen=True, slots=True)
class Bound:
    """A batch made concrete: the work, what it reads as its requests claim it, and the blocks that it writes."""

    work: Work
    reads: tuple[Claim, ...]
    writes: tuple[int, ...]


def bind(batch: Batch, step: int, block_tokens: int) -> Bound:
    """Lay a batch out flat. Block tables are cut to the context, so nothing past it can be read."""
    rows = batch.rows
    lengths = [row.tokens for row in rows]
    starts = [row.request.computed for row in rows]
    row_starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=row_starts[1:])
    token_ids: list[int] = []
    for row, start, length in zip(rows, starts, lengths, strict=True):
        token_ids += row.request.tokens[start : start + length]
    context = np.asarray(starts, np.int64) + np.asarray(lengths, np.int64)
    positions = np.arange(row_starts[-1]) + np.repeat(np.asarray(starts, np.int64) - row_starts[:-1], lengths)
    tables = tuple(row.request.blocks[: -(-int(end) // block_tokens)] for row, end in zip(rows, context, strict=True))
    writes, slots = _slots(tables, positions, lengths, block_tokens)
    work = Work(
        step=step,
        model_key=batch.model_key,
        request_ids=tuple(row.request.id for row in rows),
        token_ids=np.asarray(token_ids, np.int64),
        positions=positions,
        slots=slots,
        row_starts=row_starts,
        context_lens=context,
        block_tables=tables,
        sampling=tuple(row.request.submit.sampling if row.samples else None for row in rows),
        lineages=tuple(row.request.line.lineage for row in rows),
    )
    reads = tuple(_claim(row.request) for row in rows)
    return Bound(work, reads, writes)


def _claim(request: Request) -> Claim:
    """What the request's own tokens say its KV holds."""
    return Claim(request.id, request.generations, request.line.sums, request.line.tokens)


def _slots(
    tables: Sequence[Sequence[int]], positions: Ints, lengths: Sequence[int], block_tokens: int
) -> tuple[tuple[int, ...], Ints]:
    """The KV slot of each new token, and the blocks they fall into."""
    if len(lengths) == len(positions):  # decode: the new token is in each table's last block, since tables are cut
        blocks = np.fromiter((table[-1] for table in tables), np.int64, len(tables))
        return tuple(blocks.tolist()), blocks * block_tokens + positions % block_tokens
    flat = np.fromiter(chain.from_iterable(tables), np.int64)
    firsts = np.cumsum([0, *(len(table) for table in tables)])[:-1]
    blocks = flat[np.repeat(firsts, lengths) + positions // block_tokens]
    return tuple(np.unique(blocks).tolist()), blocks * block_tokens + positions % block_tokens
