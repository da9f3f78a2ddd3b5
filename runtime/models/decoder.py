"""The decoder: Llama, Qwen2 and Qwen3 as one lean function over paged KV.

embed -> [norm -> qkv -> (q, k norm) -> rotate -> write KV -> attend -> out, norm -> gate, up -> down] x layers
      -> last token of each sampled row -> norm -> head

Each step writes into buffers of its own (buffers.py), by `out=`: a steady step asks torch for no memory.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor

from runtime.models import attention, exact, rope
from runtime.models.attention import Operands
from runtime.models.buffers import Buffers, Norm
from runtime.models.config import DecoderConfig
from runtime.models.kv import PagedKv
from runtime.models.layout import Layout
from runtime.models.step_space import StepSpace, alone
from runtime.models.weights import Layer, Weights


@dataclass(frozen=True, slots=True, eq=False)
class _Turned:
    """A layer's matrices as [in, out], made once: a transpose costs as much as a small kernel."""

    qkv: Tensor
    output: Tensor
    gate_up: Tensor
    down: Tensor


class Decoder:
    """Weights and tables of one model. One step at a time, in `space` (one of its own when none is given)."""

    def __init__(
        self, config: DecoderConfig, weights: Weights, *, exact_mode: bool = False, space: StepSpace | None = None
    ) -> None:
        self.config = config
        self.exact_mode = exact_mode
        self.space = alone(config) if space is None else space
        self._weights = weights
        self._turned = [
            _Turned(layer.qkv.t(), layer.output.t(), layer.gate_up.t(), layer.down.t()) for layer in weights.layers
        ]
        self._head = weights.head.t()
        self._cosine, self._sine = rope.tables(config, config.context_max)
        self._attention = exact.attention if exact_mode else attention.attention

    def forward(self, layout: Layout, kv: PagedKv, at: Buffers) -> Tensor:
        """Logits [sampled rows, vocabulary] of one launch, in `at`; K and V of its tokens are in `kv` afterwards."""
        weights, hidden = self._weights, at.hidden
        torch.index_select(weights.embedding, 0, layout.tokens, out=hidden)
        torch.index_select(self._cosine, 0, layout.positions, out=at.cosine)
        torch.index_select(self._sine, 0, layout.positions, out=at.sine)
        keys, values, staged = (each[: layout.count] for each in (at.keys, at.values, at.staged))
        attend = self._attention(Operands(layout, at.queries, at.keys, at.values, kv, self.space, at.attended))
        for index, (layer, turned) in enumerate(zip(weights.layers, self._turned, strict=True)):
            self._norm(hidden, layer.input_norm, at.norm)
            self._heads(layer, turned, at)
            kv.write(index, layout.places, keys, values, staged)
            attend(index)
            hidden.addmm_(at.attended, turned.output)
            self._norm(hidden, layer.mlp_norm, at.norm)
            torch.mm(at.norm.normed, turned.gate_up, out=at.gate_up)
            hidden.addmm_(self._gated(at), turned.down)
        torch.index_select(hidden, 0, layout.picked, out=at.last)
        self._norm(at.last, weights.final_norm, at.last_norm)
        torch.mm(at.last_norm.normed, self._head, out=at.logits)
        return at.logits[: len(layout.picked_rows)]

    def _heads(self, layer: Layer, matrices: _Turned, at: Buffers) -> None:
        """q and k, turned by their positions, and v."""
        if layer.qkv_bias is None:
            torch.mm(at.norm.normed, matrices.qkv, out=at.fused)
        else:
            torch.addmm(layer.qkv_bias, at.norm.normed, matrices.qkv, out=at.fused)
        if layer.q_norm is not None and layer.k_norm is not None:
            self._norm_heads(layer.q_norm, layer.k_norm, at)
        rope.rotate(at.turning, at.cosine_by_head, at.sine_by_head, at.swapped, at.turned)

    def _norm(self, values: Tensor, weight: Tensor, into: Norm) -> None:
        """RMSNorm, in the same steps as torch's own and so to the same bits; that one has no `out=`."""
        torch.mul(values, values, out=into.squares)
        torch.mean(into.squares, -1, True, out=into.factors)
        torch.mul(values, into.factors.add_(self.config.norm_epsilon).rsqrt_(), out=into.normed).mul_(weight)

    def _norm_heads(self, query_weight: Tensor, key_weight: Tensor, at: Buffers) -> None:
        """RMSNorm of each head of q and k, in place."""
        torch.mul(at.turning, at.turning, out=at.swapped)
        torch.mean(at.swapped, -1, True, out=at.head_factors)
        at.turning.mul_(at.head_factors.add_(self.config.norm_epsilon).rsqrt_())
        at.turning[:, : self.config.heads].mul_(query_weight)
        at.turning[:, self.config.heads :].mul_(key_weight)

    def _gated(self, at: Buffers) -> Tensor:
        """silu(gate) * up, in the place of gate."""
        if self.exact_mode:
            return exact.silu_(at.gate, at.spread).mul_(at.up)
        return functional.silu(at.gate, inplace=True).mul_(at.up)
