"""Rotary position tables: default, linear and llama3 frequency scaling.

A head's first half and second half form the pairs (Hugging Face's layout, not the interleaved one of the paper).
"""

import math

import torch
from torch import Tensor

from runtime.models.config import DecoderConfig


def rotate(heads: Tensor, cosine: Tensor, sine: Tensor, halves_swapped: Tensor, rotated: Tensor) -> None:
    """Rotates `heads` [tokens, heads, head_dim] into `rotated`, which has the same shape.

    `cosine` and `sine` are the rows of `tables` for the tokens' positions, [tokens, 1, head_dim]. `sine` carries the
    minus sign of the first half, so one swap of halves is enough. `halves_swapped` is scratch of the shape of `heads`.
    """
    half = heads.shape[2] // 2
    torch.cat((heads[..., half:], heads[..., :half]), 2, out=halves_swapped)
    torch.mul(heads, cosine, out=rotated).addcmul_(halves_swapped, sine)


def tables(config: DecoderConfig, positions: int) -> tuple[Tensor, Tensor]:
    """(cosine, signed sine), each [positions, head_dim] float32."""
    angles = torch.arange(positions, dtype=torch.float32)[:, None] * inverse_frequencies(config)[None, :]
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat((cosine, cosine), 1), torch.cat((-sine, sine), 1)


def inverse_frequencies(config: DecoderConfig) -> Tensor:
    """Radians per token of each pair, [head_dim / 2] float32."""
    rope, inverse = config.rope, unscaled_frequencies(config)
    if rope.kind == "linear":
        return inverse / rope.factor
    if rope.kind == "llama3":
        return _llama3(config, inverse)
    return inverse


def unscaled_frequencies(config: DecoderConfig) -> Tensor:
    """Radians per token of each pair before any scaling, [head_dim / 2] float32."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    return 1.0 / config.rope.theta**exponents


def _llama3(config: DecoderConfig, inverse: Tensor) -> Tensor:
    """Scales by Llama 3.1's rule: long waves are stretched by `factor`, short ones are kept, and frequencies between
    them are interpolated linearly."""
    rope = config.rope
    waves = 2 * math.pi / inverse
    share = (rope.original_context / waves - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    blended = (1 - share) * inverse / rope.factor + share * inverse
    long_wave = waves > rope.original_context / rope.low_freq_factor
    short_wave = waves < rope.original_context / rope.high_freq_factor
    return torch.where(long_wave, inverse / rope.factor, torch.where(short_wave, inverse, blended))
