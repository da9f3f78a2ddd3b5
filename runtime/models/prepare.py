"""Prepares a step: makes the index tensors and masks of the decoder from plain `Work`, once for all layers.

    decode rows (one new token)     all together: one padded block table, one mask
    chunks (several new tokens)     one by one: a chunk that starts its sequence needs no gather and no mask

A batch of decode rows only is the fast path: its queries are the flat tokens, without a copy.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from runtime.core.work import NO_BLOCK, Ints, Work
from runtime.models.by_page import Pages, run_of_pages
from runtime.models.kv import PagedKv

TILE = 64
"""Tokens in one KV tile of batch-invariant mode."""
PAD = 16
"""Batch-invariant mode pads the number of tokens in every matrix product to a multiple of this."""
_NO_PAGES = torch.empty(0, dtype=torch.int64)


@dataclass(frozen=True, slots=True)
class DecodeRows:
    """All rows with one new token."""

    at: Tensor | None
    """[rows]: their indices in the flat tokens; None when the batch holds only decode rows."""
    pages: Tensor
    """[rows * kv_heads * blocks a row]: the block tables (PagedKv.pages), short ones filled up with the dummy block."""
    run: Pages | None
    """Set where the rows' pages lie close together (by_page)."""
    rows: int
    length: int
    """Tokens gathered for each row: blocks of a row times block_tokens."""
    mask: Tensor
    """[rows, 1, 1, length]: 0 for tokens that a row attends to, -inf for all others."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors of the rows, in the order of the contract `decode_graph`."""
        mixed = () if self.at is None else (self.at,)
        return (self.pages, self.mask, *mixed, *(() if self.run is None else self.run.tensors))

    def with_tensors(self, tensors: tuple[Tensor, ...]) -> "DecodeRows":
        """A copy of these rows with other tensors, given in the order of the property `tensors`."""
        pages, mask, *more = tensors
        at = None if self.at is None else more.pop(0)
        run = None if self.run is None else replace(self.run, owner=more[0], order=more[1], place=more[2])
        return replace(self, at=at, pages=pages, mask=mask, run=run)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One row with several new tokens: flat tokens `first` up to but without `last`."""

    first: int
    last: int
    pages: Tensor
    """[kv_heads * blocks of the row]; [0] when the mask is None, since no page is read then."""
    length: int
    mask: Tensor | None
    """[tokens, length]: 0 or -inf; None for the first chunk of a sequence, which is causal over itself."""


@dataclass(frozen=True, slots=True)
class StepInputs:
    """The tensors that a decoder reads for one launch."""

    tokens: Tensor
    """[tokens]: ids, and so are `positions`."""
    positions: Tensor
    count: int
    """Real tokens; `tokens` and `positions` may be padded past them."""
    slots: Tensor
    """[count * kv_heads]: indices for the KV of the real tokens (PagedKv.places)."""
    decode: DecodeRows | None
    chunks: tuple[Chunk, ...]
    last_tokens: Tensor
    """[samples]: flat index of the last token of each row that is sampled, padded like `tokens`."""
    sampled_rows: tuple[int, ...]
    """The rows behind `last_tokens`."""


def prepare(work: Work, kv: PagedKv, batch_invariant: bool = False) -> StepInputs:
    """The inputs of `work`. `batch_invariant` pads them to sizes that do not depend on the other rows of the batch."""
    lengths = np.diff(work.row_starts)
    single = lengths == 1
    chunks = tuple(_chunk(work, row, kv, batch_invariant) for row in np.flatnonzero(~single & (lengths > 0)).tolist())
    rows = np.flatnonzero(single)
    decode = _decode_rows(work, rows, kv, batch_invariant, alone=not chunks) if len(rows) else None
    sampled_rows = tuple(row for row, sampling in enumerate(work.sampling) if sampling is not None)
    last_tokens = work.row_starts[1:][list(sampled_rows)] - 1
    return StepInputs(
        tokens=torch.from_numpy(_padded(work.token_ids, batch_invariant)),
        positions=torch.from_numpy(_padded(work.positions, batch_invariant)),
        count=work.tokens,
        slots=kv.places(work.slots),
        decode=decode,
        chunks=chunks,
        last_tokens=torch.from_numpy(_padded(last_tokens, batch_invariant)),
        sampled_rows=sampled_rows,
    )


def _decode_rows(work: Work, rows: Ints, kv: PagedKv, batch_invariant: bool, *, alone: bool) -> DecodeRows:
    contexts = work.context_lens[rows]
    width = _blocks_for(int(contexts.max()), kv.block_tokens, batch_invariant)
    tables = _tables(work, rows, width, kv)
    length = width * kv.block_tokens
    mask = np.where(np.arange(length) < contexts[:, None], np.float32(0), np.float32(-np.inf))
    return DecodeRows(
        at=None if alone else torch.from_numpy(work.row_starts[rows]),
        pages=kv.pages(tables),
        run=None if batch_invariant else run_of_pages(tables, -(-contexts // kv.block_tokens), kv.heads),
        rows=len(rows),
        length=length,
        mask=torch.from_numpy(mask)[:, None, None, :],
    )


def _chunk(work: Work, row: int, kv: PagedKv, batch_invariant: bool) -> Chunk:
    first, last = int(work.row_starts[row]), int(work.row_starts[row + 1])
    context = int(work.context_lens[row])
    begin = context - (last - first)
    width = _blocks_for(context, kv.block_tokens, batch_invariant)
    length = width * kv.block_tokens
    if not begin and not batch_invariant:
        return Chunk(first, last, _NO_PAGES, length, None)
    seen = np.arange(length)[None, :] <= np.arange(begin, context)[:, None]
    mask = torch.from_numpy(np.where(seen, np.float32(0), np.float32(-np.inf)))
    return Chunk(first, last, kv.pages(_tables(work, np.array([row]), width, kv)), length, mask)


def _tables(work: Work, rows: Ints, width: int, kv: PagedKv) -> Ints:
    """The block tables of `rows`, `width` blocks each; the dummy block stands behind their ends."""
    tables = np.full((len(rows), width), kv.dummy_block)
    given = work.block_tables[rows, :width]
    np.copyto(tables[:, : given.shape[1]], given, where=given != NO_BLOCK)
    return tables


def _blocks_for(tokens: int, block_tokens: int, batch_invariant: bool) -> int:
    if batch_invariant:
        tokens = -(-tokens // TILE) * TILE
    return -(-tokens // block_tokens)


def _padded(values: Ints, batch_invariant: bool) -> Ints:
    """Repeats the first entry up to a multiple of PAD. Its results are dropped, but it must be a real index."""
    missing = -len(values) % PAD if batch_invariant and len(values) else 0
    return np.concatenate((values, np.full(missing, values[0]))) if missing else values
