"""A decoder's weights: the tensors that a checkpoint must hold, and the fused form that a step reads.

q, k and v are one matrix, and so are gate and up: the number of calls limits a decode step of a small model.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.memory.spans.placement import GRANULE, aligned
from runtime.models.config import DecoderConfig

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one transformer block. Matrices are views as [in, out], made once: a transpose costs as much as a
    small kernel."""

    input_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    q_norm: Tensor | None
    k_norm: Tensor | None
    output: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights of a decoder; `head` [hidden, vocabulary] is a view of `embedding` when they are tied."""

    embedding: Tensor
    layers: tuple[Layer, ...]
    final_norm: Tensor
    head: Tensor


def blank(config: DecoderConfig, make: Callable[[Shape], Tensor]) -> tuple[Weights, dict[str, Tensor]]:
    """Weights in new tensors of `make`, and by name the views in them that each tensor of a checkpoint must fill."""
    shapes, targets = tensor_shapes(config), dict[str, Tensor]()

    def join(*names: str) -> Tensor:
        rows = [shapes[name][0] for name in names]
        whole = make((sum(rows), *shapes[names[0]][1:]))
        targets.update(zip(names, torch.split(whole, rows), strict=True))
        return whole

    embedding = join("model.embed_tokens.weight")
    layers = tuple(_layer(config, f"model.layers.{index}.", join) for index in range(config.layers))
    head = embedding if config.tied else join("lm_head.weight")
    return Weights(embedding, layers, join("model.norm.weight"), head.t()), targets


def weights_bytes(config: DecoderConfig, item_bytes: int = 4) -> int:
    """Bytes that all weights take in a pool, each tensor rounded up as the pool does."""
    return sum(aligned(math.prod(shape) * item_bytes, GRANULE) for shape in tensor_shapes(config).values())


def _layer(config: DecoderConfig, prefix: str, join: Callable[..., Tensor]) -> Layer:
    def fused(kind: str, *names: str) -> Tensor:
        return join(*(f"{prefix}{name}.{kind}" for name in names))

    attention = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    return Layer(
        input_norm=fused("weight", "input_layernorm"),
        qkv=fused("weight", *attention).t(),
        qkv_bias=fused("bias", *attention) if config.qkv_bias else None,
        q_norm=fused("weight", "self_attn.q_norm") if config.qk_norm else None,
        k_norm=fused("weight", "self_attn.k_norm") if config.qk_norm else None,
        output=fused("weight", "self_attn.o_proj").t(),
        mlp_norm=fused("weight", "post_attention_layernorm"),
        gate_up=fused("weight", "mlp.gate_proj", "mlp.up_proj").t(),
        down=fused("weight", "mlp.down_proj").t(),
    )


def tensor_shapes(config: DecoderConfig) -> dict[str, Shape]:
    """The shape of every tensor of a checkpoint, by its Hugging Face name."""
    shapes: dict[str, Shape] = {
        "model.embed_tokens.weight": (config.vocabulary, config.hidden),
        "model.norm.weight": (config.hidden,),
    }
    if not config.tied:
        shapes["lm_head.weight"] = (config.vocabulary, config.hidden)
    for index in range(config.layers):
        shapes.update((f"model.layers.{index}.{name}", shape) for name, shape in _layer_shapes(config))
    return shapes


def _layer_shapes(config: DecoderConfig) -> Iterator[tuple[str, Shape]]:
    hidden, width = config.hidden, config.intermediate
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    yield "input_layernorm.weight", (hidden,)
    yield "post_attention_layernorm.weight", (hidden,)
    for name, rows in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys)):
        yield f"self_attn.{name}.weight", (rows, hidden)
        if config.qkv_bias:
            yield f"self_attn.{name}.bias", (rows,)
    yield "self_attn.o_proj.weight", (hidden, queries)
    if config.qk_norm:
        yield "self_attn.q_norm.weight", (config.head_dim,)
        yield "self_attn.k_norm.weight", (config.head_dim,)
    yield "mlp.gate_proj.weight", (width, hidden)
    yield "mlp.up_proj.weight", (width, hidden)
    yield "mlp.down_proj.weight", (hidden, width)
