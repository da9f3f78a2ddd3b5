"""The float32 buffers of one launch: their names, their sizes in bytes, and views of them on four spans of memory.

    residual   hidden, normed, and scratch of the norm                    [tokens, ...]
    qkv        fused, rotated, halves_swapped, angles, staged, attended   [tokens, ...]
    mlp        gate and up side by side, scratch of batch-invariant silu  [tokens, ...]
    logits     last, its norm, logits                                     [sampled, ...]

Sizes are rounded up to buckets of 16 rows, so that a batch that grows by one row mostly asks for the same bytes.
"""

import math
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
"""Name of a buffer -> elements in each row."""


@dataclass(frozen=True, slots=True, eq=False)
class Norm:
    """Buffers that an RMSNorm writes: its result, the squares of its input, and one factor for each row."""

    normed: Tensor
    squares: Tensor
    factors: Tensor


class Buffers:
    """Views for one shape of launch, with undefined content. Views that share bytes stand together."""

    def __init__(
        self, config: DecoderConfig, segments: TorchSegments, spans: Sequence[Span], tokens: int, sampled: int
    ) -> None:
        """Makes the views on `spans`, which have the sizes of `sizes_of`. Raises RuntimeError when one is shorter."""
        views: dict[str, Tensor] = {}
        parts = parts_of(config)
        for widths, span, count in zip(parts, spans, _counts(parts, tokens, sampled), strict=True):
            raw, at = segments.bytes_of(span), 0
            for name, width in widths.items():
                piece = raw[at : at + count * width * _ITEM_BYTES]
                views[name] = piece.view(torch.float32).view(count, width)
                at += padded_bytes(_bucket(count), width)
        heads, both, size = config.heads, config.heads + config.kv_heads, config.head_dim
        self.hidden = views["hidden"]
        self.norm = Norm(views["normed"], views["squares"], views["factors"])
        self.cosine, self.sine = views["cosine"], views["sine"]
        self.cosine_by_head, self.sine_by_head = self.cosine[:, None], self.sine[:, None]
        """[tokens, 1, head_dim]"""
        self.fused = views["fused"]
        """[tokens, (heads + 2 kv_heads) * head_dim]: q, k, v side by side."""
        by_head = self.fused.view(tokens, both + config.kv_heads, size)
        self.unrotated, self.values = by_head[:, :both], by_head[:, both:]
        """[tokens, heads + kv_heads, head_dim]: q and k in `fused`; its v are `values` [tokens, kv_heads, head_dim]."""
        self.rotated = views["rotated"].view(tokens, both, size)
        """[tokens, heads + kv_heads, head_dim]: q and k after the rotation; `queries` and `keys` are its two parts."""
        self.queries, self.keys = self.rotated[:, :heads], self.rotated[:, heads:]
        self.halves_swapped = views["halves_swapped"].view(tokens, both, size)
        """[tokens, heads + kv_heads, head_dim]: scratch of the rotation."""
        self.head_factors = views["head_factors"].view(tokens, both, 1)
        self.staged = views["staged"].view(tokens, config.kv_heads, size)
        """[tokens, kv_heads, head_dim]: a dense copy of K, then of V, on its way into the pages."""
        self.attended = views["attended"]
        """[tokens, heads * head_dim]"""
        self.gate_up = views["gate_up"]
        """[tokens, 2 * intermediate]; `gate` and `up` are its two halves."""
        self.gate, self.up = self.gate_up[:, : config.intermediate], self.gate_up[:, config.intermediate :]
        self.spread = views["spread"]
        """[tokens, intermediate]"""
        self.last = views["last"]
        self.last_norm = Norm(views["last_normed"], views["last_squares"], views["last_factors"])
        self.logits = views["logits"]


def parts_of(config: DecoderConfig) -> tuple[Widths, ...]:
    """The buffers of each of the four spans. Rows of the last span are sampled rows, rows of the others are tokens."""
    rotated = config.heads + config.kv_heads
    head = config.head_dim
    return (
        {"hidden": config.hidden, "normed": config.hidden, "squares": config.hidden, "factors": 1},
        {
            "cosine": head,
            "sine": head,
            "fused": (rotated + config.kv_heads) * head,
            "rotated": rotated * head,
            "halves_swapped": rotated * head,
            "head_factors": rotated,
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


def sizes_of(parts: Sequence[Widths], tokens: int, sampled: int) -> tuple[int, ...]:
    """Bytes of each span for `tokens` tokens and `sampled` sampled rows, each rounded up to a bucket."""
    return tuple(
        sum(padded_bytes(_bucket(count), width) for width in widths.values())
        for widths, count in zip(parts, _counts(parts, tokens, sampled), strict=True)
    )


def step_bytes(config: DecoderConfig, tokens: int, sampled: int) -> int:
    """Bytes that the arena must hold for one launch of `tokens` tokens and `sampled` rows, rounded up as it rounds."""
    return sum(aligned(size, 4096) for size in sizes_of(parts_of(config), tokens, sampled))


def padded_bytes(*shape: int) -> int:
    """Bytes of a float32 tensor, rounded up to the alignment of the next one."""
    return aligned(max(1, math.prod(shape)) * _ITEM_BYTES, _ALIGNMENT)


def _counts(parts: Sequence[Widths], tokens: int, sampled: int) -> tuple[int, ...]:
    """Rows of each span."""
    return (tokens,) * (len(parts) - 1) + (sampled,)


def _bucket(count: int) -> int:
    return max(BUCKET, aligned(count, BUCKET))
