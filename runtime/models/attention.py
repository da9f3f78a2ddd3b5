"""Attention over paged KV: copies the pages of each row and head side by side, then attends.

    attention(operands)      once a launch: chooses the steps, their scratch and all tensor views
      attend(layer)          once a layer: runs these steps on the pages of that layer

The query heads that share one KV head are laid out as more query rows of that head, so grouped queries cost no copy of
K and V. For single queries two batched matrix products are faster than the fused kernel.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as functional
from torch import Tensor

from runtime.models import by_page
from runtime.models.kv import PagedKv
from runtime.models.prepare import Chunk, DecodeRows, StepInputs
from runtime.models.workspace import Scratch, Workspace

Job = Callable[[int], None]
"""Computes the attention, or one part of it, of the layer whose number it is given."""


@dataclass(frozen=True, slots=True, eq=False)
class Operands:
    """Tensors that the attention of one launch reads and writes, here and in `batch_invariant.attention`.

    `keys` and `values` belong to the new tokens of this launch. The decoder fills them again for each layer, and writes
    them into `kv` before it attends.
    """

    inputs: StepInputs
    queries: Tensor
    """[tokens, heads, head_dim]"""
    keys: Tensor
    """[tokens, kv_heads, head_dim], and so are `values`."""
    values: Tensor
    kv: PagedKv
    space: Workspace
    output: Tensor
    """[tokens, heads * head_dim]"""


def attention(operands: Operands) -> Job:
    """The attention of one launch. Each call of the result attends one layer and fills `operands.output`."""
    queries, kv, space, output = operands.queries, operands.kv, operands.space, operands.output
    jobs: list[Job] = []
    decode = operands.inputs.decode
    if decode is not None:
        if decode.at is None:
            jobs += _rows(decode, queries, kv, space, output)
        else:
            jobs.append(_scattered_rows(decode.at, decode, queries, kv, space, output))
    for chunk in operands.inputs.chunks:
        part = slice(chunk.first, chunk.last)
        # The views are made once a launch and not once a layer.
        chunk_queries = queries[part].transpose(0, 1).reshape(kv.heads, -1, chunk.last - chunk.first, kv.head_dim)
        chunk_output = output[part].view(chunk.last - chunk.first, -1, kv.head_dim).transpose(0, 1)
        if chunk.mask is None:
            own = operands.keys[part].transpose(0, 1), operands.values[part].transpose(0, 1)
            jobs.append(partial(_own_chunk, chunk_queries, *own, chunk_output))
        else:
            scratch = space.scratch(*gathered_shapes(chunk, kv))
            jobs.append(partial(_masked_chunk, scratch, chunk, chunk_queries, kv, chunk_output))

    def attend(layer: int) -> None:
        for job in jobs:
            job(layer)

    return attend


def parts(decode: DecodeRows, kv: PagedKv, heads: int, space: Workspace) -> Iterator[tuple[slice, DecodeRows]]:
    """Splits `decode` into pieces whose gathered K and V, scores and shares fit into scratch. Mostly one piece."""
    pages = kv.heads * decode.length // kv.block_tokens
    row_bytes = 4 * decode.length * (2 * kv.heads * kv.head_dim + 2 * heads)
    rows_max = max(1, (space.scratch_bytes - 65536) // row_bytes)
    if decode.rows <= rows_max:
        yield slice(0, decode.rows), decode
        return
    for first in range(0, decode.rows, rows_max):
        part = slice(first, min(first + rows_max, decode.rows))
        own = decode.pages[first * pages : part.stop * pages]
        yield part, replace(decode, pages=own, rows=part.stop - first, mask=decode.mask[part], run=None)


def gathered_shapes(asked: DecodeRows | Chunk, kv: PagedKv) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of the two tensors that `gather` fills, [pages, block_tokens, head_dim] each."""
    shape = (len(asked.pages), kv.block_tokens, kv.head_dim)
    return shape, shape


def gather(
    asked: DecodeRows | Chunk, rows: int, kv: PagedKv, layer: int, keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor]:
    """Copies K and V of `asked.pages` into `keys` and `values`, in the order of the block tables.

    Returns views of both, [rows * kv_heads, length, head_dim] each.
    """
    shape = (rows * kv.heads, asked.length, kv.head_dim)
    torch.index_select(kv.key_pages[layer], 0, asked.pages, out=keys)
    torch.index_select(kv.value_pages[layer], 0, asked.pages, out=values)
    return keys.view(shape), values.view(shape)


def _rows(decode: DecodeRows, queries: Tensor, kv: PagedKv, space: Workspace, output: Tensor) -> Iterator[Job]:
    """Jobs for rows with one new token each: by page where the rows have a run of pages and scratch holds it, else in
    parts that fit into scratch."""
    if decode.run is not None:
        shapes = by_page.shapes(decode.run, queries, kv.heads, kv.block_tokens)
        scratch = space.scratch_for(shapes, partial(by_page.PageScratch, decode.rows))
        if scratch.bytes <= space.scratch_bytes:
            yield partial(by_page.attend, scratch, decode.run, decode.mask, queries, kv, output.view(queries.shape))
            return
    for part, rows in parts(decode, kv, queries.shape[1], space):
        scored = (rows.rows * kv.heads, queries.shape[1] // kv.heads, rows.length)
        shapes = (*gathered_shapes(rows, kv), (rows.rows, *queries.shape[1:]), scored, scored)
        gathered = space.scratch_for(shapes, partial(_GatherScratch, rows.rows))
        yield partial(_gathered, gathered, rows, queries[part], kv, output[part])


def _scattered_rows(
    at: Tensor, decode: DecodeRows, queries: Tensor, kv: PagedKv, space: Workspace, output: Tensor
) -> Job:
    """A job for decode rows among chunks: it copies their queries side by side, and their output back."""
    shape = (decode.rows, *queries.shape[1:])
    scratch = space.scratch(shape, (decode.rows, output.shape[1]))

    def job(layer: int) -> None:
        with scratch as (decode_queries, decode_output):
            torch.index_select(queries, 0, at, out=decode_queries)
            for each in _rows(decode, decode_queries, kv, space, decode_output):
                each(layer)
            output.index_copy_(0, at, decode_output)

    return job


class _GatherScratch:
    """Scratch tensors of `_gathered` and views of them, made once for all layers. Their content is undefined."""

    def __init__(self, rows: int, tensors: Sequence[Tensor]) -> None:
        """Makes the views. `tensors` are the gathered K and V, scaled queries, scores and shares."""
        self.key_pages, self.value_pages, self.scaled, self.scores, self.shares = tensors
        groups, _, length = self.scores.shape
        shape = (groups, length, self.scaled.shape[2])
        self.keys = self.key_pages.view(shape).transpose(1, 2)
        """[rows * kv_heads, head_dim, length]: the keys of each row and head, transposed."""
        self.values = self.value_pages.view(shape)
        """[rows * kv_heads, length, head_dim]"""
        self.scaled_by_group = self.scaled.view(groups, -1, self.scaled.shape[2])
        """[rows * kv_heads, group, head_dim]"""
        self.scores_to_mask = self.scores.view(rows, -1, *self.scores.shape[1:])
        """[rows, kv_heads, group, length]"""


def _gathered(
    scratch: Scratch[_GatherScratch], decode: DecodeRows, queries: Tensor, kv: PagedKv, output: Tensor, layer: int
) -> None:
    with scratch as views:
        torch.index_select(kv.key_pages[layer], 0, decode.pages, out=views.key_pages)
        torch.index_select(kv.value_pages[layer], 0, decode.pages, out=views.value_pages)
        torch.mul(queries, kv.head_dim**-0.5, out=views.scaled)
        torch.bmm(views.scaled_by_group, views.keys, out=views.scores)
        views.scores_to_mask.add_(decode.mask)
        torch.softmax(views.scores, 2, out=views.shares)
        torch.bmm(views.shares, views.values, out=output.view(views.scaled_by_group.shape))


def _own_chunk(queries: Tensor, keys: Tensor, values: Tensor, output: Tensor, layer: int) -> None:
    """Attends the first chunk of a sequence, which is causal over itself."""
    _attend_chunk(queries, keys, values, None, output)


def _masked_chunk(
    scratch: Scratch[tuple[Tensor, ...]], chunk: Chunk, queries: Tensor, kv: PagedKv, output: Tensor, layer: int
) -> None:
    with scratch as (key_pages, value_pages):
        _attend_chunk(queries, *gather(chunk, 1, kv, layer, key_pages, value_pages), chunk.mask, output)


def _attend_chunk(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, output: Tensor) -> None:
    """Fills `output` [heads, tokens, head_dim] of one chunk.

    `queries` are [kv_heads, group, tokens, head_dim], `keys` and `values` [kv_heads, length, head_dim]. Without a mask
    the chunk is causal over itself.
    """
    shared = (len(keys), queries.shape[1], *keys.shape[1:])
    # The fused kernel has no `out=`: torch allocates its result, which counts as unowned memory.
    attended = functional.scaled_dot_product_attention(
        queries, keys[:, None].expand(shared), values[:, None].expand(shared), attn_mask=mask, is_causal=mask is None
    )
    output.copy_(attended.flatten(0, 1))
