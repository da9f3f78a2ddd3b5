"""A decoder's weights: which tensors a checkpoint must hold, and the fused form that a step reads.

q, k and v are one matrix, and so are gate and up: a decode step of a small model is bound by the number of calls.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from runtime.models.config import DecoderConfig

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    """One block. Matrices are [out, in]."""

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
    """All of a decoder; `head` is `embedding` itself when they are tied."""

    embedding: Tensor
    layers: tuple[Layer, ...]
    final_norm: Tensor
    head: Tensor


def assemble(config: DecoderConfig, read: Callable[[str], Tensor]) -> Weights:
    """Fuse the tensors that `read(name)` gives; names and shapes are those of `tensor_shapes`."""
    embedding = read("model.embed_tokens.weight")
    layers = tuple(_layer(config, f"model.layers.{index}.", read) for index in range(config.layers))
    head = embedding if config.tied else read("lm_head.weight")
    return Weights(embedding, layers, read("model.norm.weight"), head)


def _layer(config: DecoderConfig, prefix: str, read: Callable[[str], Tensor]) -> Layer:
    def join(kind: str, *names: str) -> Tensor:
        return torch.cat([read(f"{prefix}{name}.{kind}") for name in names])

    attention = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    return Layer(
        input_norm=read(prefix + "input_layernorm.weight"),
        qkv=join("weight", *attention),
        qkv_bias=join("bias", *attention) if config.qkv_bias else None,
        q_norm=read(prefix + "self_attn.q_norm.weight") if config.qk_norm else None,
        k_norm=read(prefix + "self_attn.k_norm.weight") if config.qk_norm else None,
        output=read(prefix + "self_attn.o_proj.weight"),
        mlp_norm=read(prefix + "post_attention_layernorm.weight"),
        gate_up=join("weight", "mlp.gate_proj", "mlp.up_proj"),
        down=read(prefix + "mlp.down_proj.weight"),
    )


def tensor_shapes(config: DecoderConfig) -> dict[str, Shape]:
    """Every tensor of a checkpoint by its Hugging Face name."""
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
