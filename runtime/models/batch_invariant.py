"""Batch-invariant kernels: a token's logits do not depend on the other rows of the batch, nor on prompt chunks, to the
last bit.

    matrix products     the number of rows is padded to a multiple of 16 (`prepare.PAD`): BLAS picks a kernel by size
    attention           fixed KV tiles of 64 tokens with a running softmax, and at least 4 query rows
    silu                g / (1 + exp(-g)): the fused kernel splits differently above 32,768 elements

A masked tile multiplies the sums of a query by exp(0) and adds 0, so a longer row in the batch changes no bit. This was
measured on x86 with AVX-512 and MKL at 1 and 2 threads; a test checks it on the machine where it runs.
"""

import torch
from torch import Tensor

from runtime.models.attention import Job, Operands, gather, gathered_shapes, parts
from runtime.models.kv import PagedKv
from runtime.models.prepare import TILE, Chunk, DecodeRows
from runtime.models.workspace import Workspace

_QUERY_ROWS_MIN = 4


def silu_(gate: Tensor, spread: Tensor) -> Tensor:
    """Computes g / (1 + exp(-g)) in place; `spread` is scratch of the shape of `gate`."""
    torch.neg(gate, out=spread)
    return gate.div_(spread.exp_().add_(1.0))


def attention(operands: Operands) -> Job:
    """The attention of one launch, as `attention.attention` gives it, but K and V are read from `kv` only. Output rows
    of padding become zeros."""

    def attend(layer: int) -> None:
        operands.output[operands.inputs.count :].zero_()
        if operands.inputs.decode is not None:
            _rows(operands.inputs.decode, operands, layer)
        for chunk in operands.inputs.chunks:
            _chunk(chunk, operands, layer)

    return attend


def _rows(decode: DecodeRows, operands: Operands, layer: int) -> None:
    kv, heads = operands.kv, operands.queries.shape[1]
    at = slice(0, decode.rows) if decode.at is None else decode.at
    queries, output = operands.queries[at], torch.empty((decode.rows, operands.output.shape[1]))
    for part, rows in parts(decode, kv, heads, operands.space):
        grouped = queries[part].view(rows.rows, kv.heads, -1, kv.head_dim)
        output[part] = _tiled(rows, rows.rows, grouped, rows.mask, kv, layer, operands.space).reshape(rows.rows, -1)
    operands.output[at] = output


def _chunk(chunk: Chunk, operands: Operands, layer: int) -> None:
    assert chunk.mask is not None, "batch-invariant layouts mask every chunk"
    kv, tokens, part = operands.kv, chunk.last - chunk.first, slice(chunk.first, chunk.last)
    # [tokens, kv_heads, group, head_dim] -> query rows of one KV head: group by group, token by token
    grouped = operands.queries[part].view(tokens, kv.heads, -1, kv.head_dim).permute(1, 2, 0, 3)
    mask = chunk.mask.repeat(grouped.shape[1], 1)[None, None]
    queries = grouped.reshape(1, kv.heads, -1, kv.head_dim)
    tiled = _tiled(chunk, 1, queries, mask, kv, layer, operands.space)
    operands.output[part] = tiled.view(grouped.shape).permute(2, 0, 1, 3).reshape(tokens, -1)


def _tiled(
    rows: DecodeRows | Chunk, count: int, queries: Tensor, mask: Tensor, kv: PagedKv, layer: int, space: Workspace
) -> Tensor:
    """Attends tile by tile with a running softmax.

    `queries` and the result are [count, kv_heads, query rows, head_dim]; `count` is the number of block tables.
    """
    with space.scratch(*gathered_shapes(rows, kv)) as pages:
        keys, values = (each.view(count, -1, *each.shape[1:]) for each in gather(rows, count, kv, layer, *pages))
        return _over_tiles(rows.length, queries, mask, keys, values)


def _over_tiles(length: int, queries: Tensor, mask: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    query_rows = queries.shape[2]
    queries, mask = _with_rows_min(queries, mask)
    scaled = queries * queries.shape[-1] ** -0.5
    highest = queries.new_full((*queries.shape[:3], 1), -torch.inf)
    total = queries.new_zeros((*queries.shape[:3], 1))
    output = torch.zeros_like(queries)
    for start in range(0, length, TILE):
        tile = slice(start, start + TILE)
        scores = scaled @ keys[:, :, tile].transpose(2, 3).contiguous() + mask[..., tile]
        # The first tile holds token 0, which every query sees: `highest` is finite from there on.
        risen = torch.maximum(highest, scores.amax(-1, keepdim=True))
        shares = (scores - risen).exp_()
        fade = (highest - risen).exp_()
        total = total * fade + shares.sum(-1, keepdim=True)
        output = output * fade + shares @ values[:, :, tile].contiguous()
        highest = risen
    return (output / total)[:, :, :query_rows]


def _with_rows_min(queries: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Pads `queries` and `mask` to 4 query rows: with fewer, BLAS takes a kernel whose sums differ in the last bit."""
    rows = queries.shape[2]
    if rows >= _QUERY_ROWS_MIN:
        return queries, mask
    padding = queries.new_zeros((*queries.shape[:2], _QUERY_ROWS_MIN - rows, queries.shape[3]))
    if mask.shape[2] > 1:
        mask = torch.cat((mask, mask[:, :, :1].expand(-1, -1, _QUERY_ROWS_MIN - rows, -1)), 2)
    return torch.cat((queries, padding), 2), mask
