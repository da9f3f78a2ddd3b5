"""Attention over paged KV, the fast way: gather the blocks of a row side by side, then fused attention.

The query heads that share one KV head are laid out as more query rows of that head, so grouped queries cost no copy of
K and V.
"""

import torch
import torch.nn.functional as functional
from torch import Tensor

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
            output[part] = _attend_chunk(queries[part], keys[part], values[part], None)
        else:
            held_keys, held_values = gather(chunk, kv, layer, space)
            output[part] = _attend_chunk(queries[part], held_keys, held_values, chunk.mask)
    return output


def gather(rows: DecodeRows | Chunk, kv: PagedKv, layer: int, space: Workspace) -> tuple[Tensor, Tensor]:
    """K and V of all tokens in `rows.blocks`, [tokens, kv_heads, head_dim] each, in the order of the table."""
    store = kv.keys[layer]
    shape = (len(rows.blocks), *store.shape[1:])
    keys = torch.index_select(store, 0, rows.blocks, out=space.take("keys", shape, store.dtype))
    values = torch.index_select(kv.values[layer], 0, rows.blocks, out=space.take("values", shape, store.dtype))
    return keys.flatten(0, 1), values.flatten(0, 1)


def _attend_rows(decode: DecodeRows, queries: Tensor, kv: PagedKv, layer: int, space: Workspace) -> Tensor:
    keys, values = gather(decode, kv, layer, space)
    kv_heads, head_dim = keys.shape[1:]
    held = (decode.rows, decode.length, kv_heads, head_dim)
    grouped = queries.reshape(decode.rows, kv_heads, -1, head_dim)
    output = functional.scaled_dot_product_attention(
        grouped, keys.view(held).transpose(1, 2), values.view(held).transpose(1, 2), attn_mask=decode.mask
    )
    return output.reshape(decode.rows, -1)


def _attend_chunk(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    tokens, heads, head_dim = queries.shape
    kv_heads = keys.shape[1]
    shared = (kv_heads, heads // kv_heads, len(keys), head_dim)
    output = functional.scaled_dot_product_attention(
        queries.transpose(0, 1).reshape(kv_heads, -1, tokens, head_dim),
        keys.transpose(0, 1)[:, None].expand(shared),
        values.transpose(0, 1)[:, None].expand(shared),
        attn_mask=mask,
        is_causal=mask is None,
    )
    return output.flatten(0, 1).transpose(0, 1).reshape(tokens, -1)
