"""The hand-placed buffers of one launch: which there are, how many bytes they take, and views of them on four spans.

    residual   hidden, normed, and what a norm needs            [tokens, ...]
    qkv        fused, turned, swapped, angles, staged, attended [tokens, ...]
    mlp        gate and up in one, and what exact mode needs    [tokens, ...]
    logits     last, its norm, logits                           [picked, ...]

Sizes go by buckets of 16 rows, so that a batch that grows by one asks for the same bytes again. All is float32.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.device.torch_segments import TorchSegments
from runtime.memory.spans.placement import aligned
from runtime.memory.spans.span import Span
from runtime.models.config import DecoderConfig

BUCKET = 16
_ALIGNMENT = 64
_ITEM_BYTES = 4

Widths = dict[str, int]
"""Buffer -> elements a row."""


@dataclass(frozen=True, slots=True, eq=False)
class Norm:
    """What an RMSNorm writes: its answer, the squares of its input, and a factor a row."""

    normed: Tensor
    squares: Tensor
    factors: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """Views for one shape of launch; any content. Those that share bytes stand together."""

    hidden: Tensor
    norm: Norm
    cosine: Tensor
    cosine_by_head: Tensor
    """[tokens, 1, head_dim]"""
    sine: Tensor
    sine_by_head: Tensor
    fused: Tensor
    """[tokens, (heads + 2 kv_heads) * head_dim]: q, k, v side by side."""
    turning: Tensor
    """[tokens, heads + kv_heads, head_dim]: q and k of `fused`; then v, each head by itself."""
    values: Tensor
    turned: Tensor
    """[tokens, heads + kv_heads, head_dim], and its two parts."""
    queries: Tensor
    keys: Tensor
    swapped: Tensor
    """As `turned`."""
    head_factors: Tensor
    """[tokens, heads + kv_heads, 1]"""
    staged: Tensor
    """[tokens, kv_heads, head_dim]: K, then V, in one piece on its way into the pages."""
    attended: Tensor
    """[tokens, heads * head_dim]"""
    gate_up: Tensor
    """[tokens, 2 * intermediate], and its two halves."""
    gate: Tensor
    up: Tensor
    spread: Tensor
    """[tokens, intermediate]"""
    last: Tensor
    last_norm: Norm
    logits: Tensor


def parts_of(config: DecoderConfig) -> tuple[Widths, ...]:
    """The four spans in order; the last is counted by picked rows, the others by tokens."""
    turned = config.heads + config.kv_heads
    head = config.head_dim
    return (
        {"hidden": config.hidden, "normed": config.hidden, "squares": config.hidden, "factors": 1},
        {
            "cosine": head,
            "sine": head,
            "fused": (turned + config.kv_heads) * head,
            "turned": turned * head,
            "swapped": turned * head,
            "head_factors": turned,
            "staged": config.kv_heads * head,
            "attended": config.heads * head,
        },
        {"gate_up": 2 * config.intermediate, "spread": config.intermediate},
        {
            "last": config.hidden,
            "last_normed": config.hidden,
            "last_squares": config.hidden,
            "last_factors": 1,
            "logits": config.vocabulary,
        },
    )


def sizes_of(parts: Sequence[Widths], tokens: int, picked: int) -> tuple[int, ...]:
    """Bytes of each span, for at least so many rows."""
    counts = (tokens,) * (len(parts) - 1) + (picked,)
    return tuple(
        sum(_room(_bucket(count), width) for width in widths.values())
        for widths, count in zip(parts, counts, strict=True)
    )


def lay_buffers(
    config: DecoderConfig, segments: TorchSegments, spans: Sequence[Span], tokens: int, picked: int
) -> Buffers:
    """Views on `spans`, which are as long as `sizes_of` says. Raises RuntimeError when one is shorter."""
    views: dict[str, Tensor] = {}
    parts = parts_of(config)
    counts = (tokens,) * (len(parts) - 1) + (picked,)
    for widths, span, count in zip(parts, spans, counts, strict=True):
        raw, at = segments.bytes_of(span), 0
        for name, width in widths.items():
            piece = raw[at : at + count * width * _ITEM_BYTES]
            views[name] = piece.view(torch.float32).view(count, width)
            at += _room(_bucket(count), width)
    heads, both = config.heads, config.heads + config.kv_heads
    by_head = views["fused"].view(tokens, both + config.kv_heads, config.head_dim)
    turned = views["turned"].view(tokens, both, config.head_dim)
    return Buffers(
        hidden=views["hidden"],
        norm=Norm(views["normed"], views["squares"], views["factors"]),
        cosine=views["cosine"],
        cosine_by_head=views["cosine"][:, None],
        sine=views["sine"],
        sine_by_head=views["sine"][:, None],
        fused=views["fused"],
        turning=by_head[:, :both],
        values=by_head[:, both:],
        turned=turned,
        queries=turned[:, :heads],
        keys=turned[:, heads:],
        swapped=views["swapped"].view(tokens, both, config.head_dim),
        head_factors=views["head_factors"].view(tokens, both, 1),
        staged=views["staged"].view(tokens, config.kv_heads, config.head_dim),
        attended=views["attended"],
        gate_up=views["gate_up"],
        gate=views["gate_up"][:, : config.intermediate],
        up=views["gate_up"][:, config.intermediate :],
        spread=views["spread"],
        last=views["last"],
        last_norm=Norm(views["last_normed"], views["last_squares"], views["last_factors"]),
        logits=views["logits"],
    )


def step_bytes(config: DecoderConfig, tokens: int, picked: int) -> int:
    """What the arena must hold for one launch of so many tokens and sampled rows, with what it rounds up."""
    return sum(aligned(size, 4096) for size in sizes_of(parts_of(config), tokens, picked))


def _bucket(count: int) -> int:
    return max(BUCKET, aligned(count, BUCKET))


def _room(count: int, width: int) -> int:
    return aligned(count * width * _ITEM_BYTES, _ALIGNMENT)
