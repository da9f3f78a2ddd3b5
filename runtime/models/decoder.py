"""The decoder of Llama, Qwen2 and Qwen3, over paged KV.

embed -> [norm -> qkv -> (q, k norm) -> rotate -> write KV -> attend -> out, norm -> gate, up -> down] x layers
      -> last token of each sampled row -> norm -> head

The contract checks the hidden states [tokens, hidden] before each stage. Each step writes into buffers of its own
(buffers.py), by `out=`: a steady step allocates no memory in torch.
"""

import torch
import torch.nn.functional as functional
from torch import Tensor

from runtime.contract.step import HEAD, LAYER, StepContract
from runtime.models import attention, rope
from runtime.models.attention import Operands
from runtime.models.batch_invariant import attention as invariant_attention
from runtime.models.batch_invariant import silu_ as invariant_silu_
from runtime.models.buffers import Buffers, Norm
from runtime.models.config import DecoderConfig
from runtime.models.kv import PagedKv
from runtime.models.prepare import StepInputs
from runtime.models.weights import Weights
from runtime.models.workspace import Workspace, alone


class Decoder:
    """Weights and tables of one model. It runs one step at a time, in `space`, or in a workspace of its own."""

    def __init__(
        self, config: DecoderConfig, weights: Weights, *, batch_invariant: bool = False, space: Workspace | None = None
    ) -> None:
        self.config = config
        self.batch_invariant = batch_invariant
        self.space = alone(config) if space is None else space
        self._weights = weights
        self._cosine, self._sine = rope.tables(config, config.context_max)
        self._attention = invariant_attention if batch_invariant else attention.attention

    def forward(self, inputs: StepInputs, kv: PagedKv, at: Buffers, contract: StepContract[Tensor]) -> Tensor:
        """Computes the logits [sampled rows, vocabulary] of one launch into `at`, and writes K and V into `kv`.

        Raises ContractViolation when a tensor breaks its contract, and OutOfMemory when scratch has no room.
        """
        hidden, tokens = self._embed(inputs, at), len(inputs.tokens)
        new_kv = tuple(each[: inputs.count] for each in (at.keys, at.values, at.staged))
        attend = self._attention(Operands(inputs, at.queries, at.keys, at.values, kv, self.space, at.attended))
        for index in range(self.config.layers):
            pages = kv.key_pages[index], kv.value_pages[index]
            hidden, *_ = contract.cross(LAYER, (hidden, *pages), tokens)
            self._layer(index, hidden, at)
            kv.write(index, inputs.slots, *new_kv)
            attend(index)
            self._finish_layer(index, hidden, at)
        (hidden,) = contract.cross(HEAD, (hidden,), tokens)
        return self._logits(inputs, hidden, at)[: len(inputs.sampled_rows)]

    def _embed(self, inputs: StepInputs, at: Buffers) -> Tensor:
        """Writes the hidden states [tokens, hidden] of the token ids and the angles of their positions into `at`."""
        torch.index_select(self._weights.embedding, 0, inputs.tokens, out=at.hidden)
        torch.index_select(self._cosine, 0, inputs.positions, out=at.cosine)
        torch.index_select(self._sine, 0, inputs.positions, out=at.sine)
        return at.hidden

    def _layer(self, index: int, hidden: Tensor, at: Buffers) -> None:
        """Writes q and k, rotated by their positions, and v of one layer into `at`."""
        layer = self._weights.layers[index]
        self._norm(hidden, layer.input_norm, at.norm)
        if layer.qkv_bias is None:
            torch.mm(at.norm.normed, layer.qkv, out=at.fused)
        else:
            torch.addmm(layer.qkv_bias, at.norm.normed, layer.qkv, out=at.fused)
        if layer.q_norm is not None and layer.k_norm is not None:
            self._norm_heads(layer.q_norm, layer.k_norm, at)
        rope.rotate(at.unrotated, at.cosine_by_head, at.sine_by_head, at.halves_swapped, at.rotated)

    def _finish_layer(self, index: int, hidden: Tensor, at: Buffers) -> None:
        """Adds the projected attention and the MLP to `hidden`, in place."""
        layer = self._weights.layers[index]
        hidden.addmm_(at.attended, layer.output)
        self._norm(hidden, layer.mlp_norm, at.norm)
        torch.mm(at.norm.normed, layer.gate_up, out=at.gate_up)
        hidden.addmm_(self._gated(at), layer.down)

    def _logits(self, inputs: StepInputs, hidden: Tensor, at: Buffers) -> Tensor:
        """Logits [samples, vocabulary] of the last token of each sampled row."""
        torch.index_select(hidden, 0, inputs.last_tokens, out=at.last)
        self._norm(at.last, self._weights.final_norm, at.last_norm)
        return torch.mm(at.last_norm.normed, self._weights.head, out=at.logits)

    def _norm(self, values: Tensor, weight: Tensor, into: Norm) -> None:
        """Writes an RMSNorm, in the steps of torch's own and so with equal bits; torch's own has no `out=`."""
        torch.mul(values, values, out=into.squares)
        torch.mean(into.squares, -1, True, out=into.factors)
        torch.mul(values, into.factors.add_(self.config.norm_epsilon).rsqrt_(), out=into.normed).mul_(weight)

    def _norm_heads(self, query_weight: Tensor, key_weight: Tensor, at: Buffers) -> None:
        """Applies RMSNorm to each head of q and k, in place."""
        torch.mul(at.unrotated, at.unrotated, out=at.halves_swapped)
        torch.mean(at.halves_swapped, -1, True, out=at.head_factors)
        at.unrotated.mul_(at.head_factors.add_(self.config.norm_epsilon).rsqrt_())
        at.unrotated[:, : self.config.heads].mul_(query_weight)
        at.unrotated[:, self.config.heads :].mul_(key_weight)

    def _gated(self, at: Buffers) -> Tensor:
        """Computes silu(gate) * up, in the place of gate."""
        if self.batch_invariant:
            return invariant_silu_(at.gate, at.spread).mul_(at.up)
        return functional.silu(at.gate, inplace=True).mul_(at.up)
