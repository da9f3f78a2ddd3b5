"""Attention over paged KV, the fast way: gather the pages of each row and head side by side, then attend.

    attention(operands)      once a launch: what to do, in which scratch, all views made
      attend(layer)          once a layer: the same steps on that layer's pages

The query heads that share one KV head are laid out as more query rows of that head, so grouped queries cost no copy of
K and V. For single queries two batched products beat the fused kernel, which is made for long ones.
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
"""Does the attention of the layer that it is given, or one part of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Operands:
    """What the attention of one launch reads and writes, in either way: this one, and `exact.attention`.

    `keys` and `values` are this launch's own, filled anew for each layer, and in `kv` already when it is attended.
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
    """Made once a launch; each call attends one layer."""
    queries, kv, space, output = operands.queries, operands.kv, operands.space, operands.output
    jobs: list[Job] = []
    decode = operands.inputs.decode
    if decode is not None:
        if decode.at is None:
            jobs += _rows(decode, queries, kv, space, output)
        else:
            jobs.append(_picked(decode.at, decode, queries, kv, space, output))
    for chunk in operands.inputs.chunks:
        part = slice(chunk.first, chunk.last)
        # Turned once a launch, and not once a layer.
        asked = queries[part].transpose(0, 1).reshape(kv.heads, -1, chunk.last - chunk.first, kv.head_dim)
        answered = output[part].view(chunk.last - chunk.first, -1, kv.head_dim).transpose(0, 1)
        if chunk.mask is None:
            own = operands.keys[part].transpose(0, 1), operands.values[part].transpose(0, 1)
            jobs.append(partial(_own_chunk, asked, *own, answered))
        else:
            scratch = space.scratch(*gathered_shapes(chunk, kv))
            jobs.append(partial(_masked_chunk, scratch, chunk, asked, kv, answered))

    def attend(layer: int) -> None:
        for job in jobs:
            job(layer)

    return attend


def parts(decode: DecodeRows, kv: PagedKv, heads: int, space: Workspace) -> Iterator[tuple[slice, DecodeRows]]:
    """`decode` in pieces whose gathered K and V, scores and shares fit into scratch; mostly one."""
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
    """Of the two tensors that `gather` fills."""
    shape = (len(asked.pages), kv.block_tokens, kv.head_dim)
    return shape, shape


def gather(
    asked: DecodeRows | Chunk, rows: int, kv: PagedKv, layer: int, keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor]:
    """K and V behind `asked.pages`, [rows * kv_heads, length, head_dim] each, in the order of the block tables."""
    shape = (rows * kv.heads, asked.length, kv.head_dim)
    torch.index_select(kv.key_pages[layer], 0, asked.pages, out=keys)
    torch.index_select(kv.value_pages[layer], 0, asked.pages, out=values)
    return keys.view(shape), values.view(shape)


def _rows(decode: DecodeRows, queries: Tensor, kv: PagedKv, space: Workspace, output: Tensor) -> Iterator[Job]:
    """Rows with one new token each: by page where that is better, else in as many parts as scratch has room for."""
    if decode.run is not None:
        shapes = by_page.shapes(decode.run, queries, kv.heads, kv.block_tokens)
        scratch = space.scratch_for(shapes, partial(by_page.Room.on, decode.rows))
        if scratch.bytes <= space.scratch_bytes:
            yield partial(_by_page, scratch, decode, queries, kv, output.view(queries.shape))
            return
    for part, rows in parts(decode, kv, queries.shape[1], space):
        scored = (rows.rows * kv.heads, queries.shape[1] // kv.heads, rows.length)
        shapes = (*gathered_shapes(rows, kv), (rows.rows, *queries.shape[1:]), scored, scored)
        gathered = space.scratch_for(shapes, partial(_Gathered.on, rows.rows))
        yield partial(_gathered, gathered, rows, queries[part], kv, output[part])


def _picked(at: Tensor, decode: DecodeRows, queries: Tensor, kv: PagedKv, space: Workspace, output: Tensor) -> Job:
    """Decode rows among chunks: carried to one place and back."""
    shape = (decode.rows, *queries.shape[1:])
    scratch = space.scratch(shape, (decode.rows, output.shape[1]))

    def job(layer: int) -> None:
        with scratch as (asked, answered):
            torch.index_select(queries, 0, at, out=asked)
            for each in _rows(decode, asked, kv, space, answered):
                each(layer)
            output.index_copy_(0, at, answered)

    return job


def _by_page(
    scratch: "Scratch[by_page.Room]", decode: DecodeRows, queries: Tensor, kv: PagedKv, output: Tensor, layer: int
) -> None:
    assert decode.run is not None, "rows without a run of pages are gathered"
    with scratch as room:
        by_page.attend(decode.run, queries, kv.turned_keys[layer], kv.value_pages[layer], decode.mask, room, output)


@dataclass(frozen=True, slots=True, eq=False)
class _Gathered:
    """Scratch of `_gathered`, and the views of it that no layer need make again. Any content."""

    key_pages: Tensor
    """[rows * kv_heads * blocks a row, block_tokens, head_dim], and so are `value_pages`."""
    value_pages: Tensor
    keys: Tensor
    """[rows * kv_heads, head_dim, length]: the keys of each row and head, turned."""
    values: Tensor
    """[rows * kv_heads, length, head_dim]"""
    scaled: Tensor
    """[rows, heads, head_dim]"""
    scaled_by_group: Tensor
    """[rows * kv_heads, group, head_dim]"""
    scores: Tensor
    """[rows * kv_heads, group, length], and so are `shares`."""
    scores_to_mask: Tensor
    """[rows, kv_heads, group, length]"""
    shares: Tensor

    @staticmethod
    def on(rows: int, tensors: Sequence[Tensor]) -> "_Gathered":
        """`tensors` are the gathered K and V, scaled queries, scores and shares."""
        key_pages, value_pages, scaled, scores, shares = tensors
        groups, _, length = scores.shape
        shape = (groups, length, scaled.shape[2])
        return _Gathered(
            key_pages=key_pages,
            value_pages=value_pages,
            keys=key_pages.view(shape).transpose(1, 2),
            values=value_pages.view(shape),
            scaled=scaled,
            scaled_by_group=scaled.view(groups, -1, scaled.shape[2]),
            scores=scores,
            scores_to_mask=scores.view(rows, -1, *scores.shape[1:]),
            shares=shares,
        )


def _gathered(
    scratch: Scratch[_Gathered], decode: DecodeRows, queries: Tensor, kv: PagedKv, output: Tensor, layer: int
) -> None:
    with scratch as room:
        torch.index_select(kv.key_pages[layer], 0, decode.pages, out=room.key_pages)
        torch.index_select(kv.value_pages[layer], 0, decode.pages, out=room.value_pages)
        torch.mul(queries, kv.head_dim**-0.5, out=room.scaled)
        torch.bmm(room.scaled_by_group, room.keys, out=room.scores)
        room.scores_to_mask.add_(decode.mask)
        torch.softmax(room.scores, 2, out=room.shares)
        torch.bmm(room.shares, room.values, out=output.view(room.scaled_by_group.shape))


def _own_chunk(queries: Tensor, keys: Tensor, values: Tensor, output: Tensor, layer: int) -> None:
    """The first chunk of a sequence, causal over itself."""
    _attend_chunk(queries, keys, values, None, output)


def _masked_chunk(
    scratch: Scratch[tuple[Tensor, ...]], chunk: Chunk, queries: Tensor, kv: PagedKv, output: Tensor, layer: int
) -> None:
    with scratch as (key_room, value_room):
        _attend_chunk(queries, *gather(chunk, 1, kv, layer, key_room, value_room), chunk.mask, output)


def _attend_chunk(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, output: Tensor) -> None:
    """`queries` are [kv_heads, group, tokens, head_dim], `keys` and `values` [kv_heads, length, head_dim].

    Without a mask the chunk is causal over itself. Fills `output` [heads, tokens, head_dim].
    """
    shared = (len(keys), queries.shape[1], *keys.shape[1:])
    # No `out=` form: what the fused kernel makes is torch's own, and counted as unowned.
    attended = functional.scaled_dot_product_attention(
        queries, keys[:, None].expand(shared), values[:, None].expand(shared), attn_mask=mask, is_causal=mask is None
    )
    output.copy_(attended.flatten(0, 1))
