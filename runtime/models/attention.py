"""Attention over paged KV, the fast way: gather the pages of each row and head side by side, then attend.

The query heads that share one KV head are laid out as more query rows of that head, so grouped queries cost no copy of
K and V. For single queries two batched products beat the fused kernel, which is made for long ones.
"""

import torch
import torch.nn.functional as functional
from torch import Tensor

from runtime.models import by_page
from runtime.models.kv import PagedKv
from runtime.models.layout import Chunk, DecodeRows, Layout


class Workspace:
    """Flat float buffers that grow and are used again: fresh memory would be mapped and faulted in at each step."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A view of `shape` with any content; valid until the same name is taken again."""
        size = 1
        for extent in shape:
            size *= extent
        buffer = self._buffers.get(name)
        if buffer is None or buffer.numel() < size or buffer.dtype != dtype:
            buffer = self._buffers[name] = torch.empty(size + size // 4, dtype=dtype)
        return buffer[:size].view(shape)


def attend(
    layout: Layout, queries: Tensor, keys: Tensor, values: Tensor, kv: PagedKv, layer: int, space: Workspace
) -> Tensor:
    """Outputs [tokens, heads * head_dim] of `queries` [tokens, heads, head_dim].

    `keys` and `values` are this launch's own and are in `kv` already.
    """
    if layout.decode is not None and layout.decode.at is None:
        return _attend_rows(layout.decode, queries, kv, layer, space)
    output = space.take("attention", (len(queries), queries.shape[1] * queries.shape[2]), queries.dtype)
    if layout.decode is not None:
        at = layout.decode.at
        output[at] = _attend_rows(layout.decode, queries[at], kv, layer, space)
    for chunk in layout.chunks:
        part = slice(chunk.first, chunk.last)
        if chunk.mask is None:
            held = keys[part].transpose(0, 1), values[part].transpose(0, 1)
        else:
            held = gather(chunk, 1, kv, layer, space)
        output[part] = _attend_chunk(queries[part], *held, chunk.mask)
    return output


def gather(asked: DecodeRows | Chunk, rows: int, kv: PagedKv, layer: int, space: Workspace) -> tuple[Tensor, Tensor]:
    """K and V behind `asked.pages`, [rows * kv_heads, length, head_dim] each, in the order of the block tables."""
    held = []
    for name, store in (("keys", kv.keys[layer]), ("values", kv.values[layer])):
        pages = store.flatten(0, 1)
        room = space.take(name, (len(asked.pages), *pages.shape[1:]), store.dtype)
        gathered = torch.index_select(pages, 0, asked.pages, out=room)
        held.append(gathered.view(rows * store.shape[1], asked.length, store.shape[3]))
    return held[0], held[1]


def _attend_rows(decode: DecodeRows, queries: Tensor, kv: PagedKv, layer: int, space: Workspace) -> Tensor:
    head_dim = queries.shape[2]
    grouped = (queries * head_dim**-0.5).view(decode.rows * kv.heads, -1, head_dim)
    if decode.run is not None:
        keys, values = kv.keys[layer].flatten(0, 1), kv.values[layer].flatten(0, 1)
        return by_page.attend(decode.run, grouped, keys, values, decode.mask).view(decode.rows, -1)
    keys, values = gather(decode, decode.rows, kv, layer, space)
    scores = torch.bmm(grouped, keys.transpose(1, 2))
    scores.view(decode.rows, kv.heads, -1, decode.length).add_(decode.mask)
    return torch.bmm(torch.softmax(scores, 2), values).view(decode.rows, -1)


def _attend_chunk(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """`keys` and `values` are [kv_heads, length, head_dim]; without a mask the chunk is causal over itself."""
    tokens, _, head_dim = queries.shape
    grouped = queries.transpose(0, 1).reshape(len(keys), -1, tokens, head_dim)
    shared = (len(keys), grouped.shape[1], *keys.shape[1:])
    output = functional.scaled_dot_product_attention(
        grouped, keys[:, None].expand(shared), values[:, None].expand(shared), attn_mask=mask, is_causal=mask is None
    )
    return output.flatten(0, 1).transpose(0, 1).reshape(tokens, -1)
