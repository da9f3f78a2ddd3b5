"""The bit-equal recipe: a token's logits do not depend on who else is in the batch, nor on how its prompt was chunked.

    matrix products     the number of rows padded to a multiple of 16 (`layout.PAD`): BLAS picks its kernel by size
    attention           fixed KV tiles of 64 with a running softmax, and never fewer than 4 query rows
    silu                g / (1 + exp(-g)): the fused one splits differently above 32,768 elements

A tile that a query may not see multiplies its sums by exp(0) and adds 0, so longer company changes no bit. Measured on
x86 with AVX-512 and MKL at 1 and 2 threads; a test says whether it holds on the machine at hand.
"""

import torch
from torch import Tensor

from runtime.models.attention import Workspace, gather
from runtime.models.kv import PagedKv
from runtime.models.layout import TILE, Chunk, DecodeRows, Layout

_QUERY_ROWS_MIN = 4


def silu(gate: Tensor) -> Tensor:
    """g / (1 + exp(-g)), step by step."""
    return gate / gate.neg().exp_().add_(1.0)


def attend(
    layout: Layout, queries: Tensor, keys: Tensor, values: Tensor, kv: PagedKv, layer: int, space: Workspace
) -> Tensor:
    """As `attention.attend`, reading everything from `kv`; rows past the real tokens come back as zeros."""
    heads, head_dim = queries.shape[1:]
    output = queries.new_zeros((len(queries), heads * head_dim))
    if layout.decode is not None:
        decode = layout.decode
        at = torch.arange(decode.rows) if decode.at is None else decode.at
        grouped = queries[at].view(decode.rows, keys.shape[1], -1, head_dim)
        output[at] = _tiled(decode, decode.rows, grouped, decode.mask, kv, layer, space).reshape(decode.rows, -1)
    for chunk in layout.chunks:
        assert chunk.mask is not None, "exact layouts mask every chunk"
        tokens = chunk.last - chunk.first
        # [tokens, kv_heads, group, head_dim] -> query rows of one KV head: group by group, token by token
        grouped = queries[chunk.first : chunk.last].view(tokens, keys.shape[1], -1, head_dim).permute(1, 2, 0, 3)
        mask = chunk.mask.repeat(grouped.shape[1], 1)[None, None]
        tiled = _tiled(chunk, 1, grouped.reshape(1, keys.shape[1], -1, head_dim), mask, kv, layer, space)
        output[chunk.first : chunk.last] = tiled.view(grouped.shape).permute(2, 0, 1, 3).reshape(tokens, -1)
    return output


def _tiled(
    rows: DecodeRows | Chunk, count: int, queries: Tensor, mask: Tensor, kv: PagedKv, layer: int, space: Workspace
) -> Tensor:
    """Running softmax over tiles; `queries` and the answer are [count, kv_heads, query rows, head_dim]."""
    asked = queries.shape[2]
    queries, mask = _enough_rows(queries, mask)
    keys, values = (held.view(count, -1, *held.shape[1:]) for held in gather(rows, count, kv, layer, space))
    scaled = queries * queries.shape[-1] ** -0.5
    highest = queries.new_full((*queries.shape[:3], 1), -torch.inf)
    total = queries.new_zeros((*queries.shape[:3], 1))
    output = torch.zeros_like(queries)
    for start in range(0, rows.length, TILE):
        tile = slice(start, start + TILE)
        scores = scaled @ keys[:, :, tile].transpose(2, 3).contiguous() + mask[..., tile]
        # The first tile holds token 0, which everybody sees: `highest` is finite from there on.
        risen = torch.maximum(highest, scores.amax(-1, keepdim=True))
        shares = (scores - risen).exp_()
        fade = (highest - risen).exp_()
        total = total * fade + shares.sum(-1, keepdim=True)
        output = output * fade + shares @ values[:, :, tile].contiguous()
        highest = risen
    return (output / total)[:, :, :asked]


def _enough_rows(queries: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """With fewer than 4 query rows BLAS takes another kernel, whose sums differ in the last bit."""
    rows = queries.shape[2]
    if rows >= _QUERY_ROWS_MIN:
        return queries, mask
    padding = queries.new_zeros((*queries.shape[:2], _QUERY_ROWS_MIN - rows, queries.shape[3]))
    if mask.shape[2] > 1:
        mask = torch.cat((mask, mask[:, :, :1].expand(-1, -1, _QUERY_ROWS_MIN - rows, -1)), 2)
    return torch.cat((queries, padding), 2), mask
