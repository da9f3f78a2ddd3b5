"""The decoder: Llama, Qwen2 and Qwen3 as one lean function over paged KV.

embed -> [norm -> qkv -> (q, k norm) -> rotate -> write KV -> attend -> out, norm -> gate, up -> down] x layers
      -> last token of each sampled row -> norm -> head
"""

import torch
import torch.nn.functional as functional
from torch import Tensor

from runtime.models import attention, exact, rope
from runtime.models.config import DecoderConfig
from runtime.models.kv import PagedKv
from runtime.models.layout import Layout
from runtime.models.weights import Layer, Weights


class Decoder:
    """Weights and tables of one model. One step at a time: its buffers are used again by the next."""

    def __init__(self, config: DecoderConfig, weights: Weights, *, exact_mode: bool = False) -> None:
        self.config = config
        self.exact_mode = exact_mode
        self._weights = weights
        self._cosine, self._sine = rope.tables(config, config.context_max)
        self._space = attention.Workspace()
        self._attend = exact.attend if exact_mode else attention.attend
        self._silu = exact.silu if exact_mode else functional.silu

    def forward(self, layout: Layout, kv: PagedKv) -> Tensor:
        """Logits [sampled rows, vocabulary] of one launch; K and V of its tokens are in `kv` afterwards."""
        weights, epsilon = self._weights, self.config.norm_epsilon
        hidden = weights.embedding.index_select(0, layout.tokens)
        cosine = self._cosine.index_select(0, layout.positions)[:, None]
        sine = self._sine.index_select(0, layout.positions)[:, None]
        for index, layer in enumerate(weights.layers):
            normed = _norm(hidden, layer.input_norm, epsilon)
            attended = self._attention(layout, index, layer, normed, cosine, sine, kv)
            hidden.addmm_(attended, layer.output.t())
            normed = _norm(hidden, layer.mlp_norm, epsilon)
            gate, up = functional.linear(normed, layer.gate_up).chunk(2, 1)
            hidden.addmm_(self._silu(gate).mul_(up), layer.down.t())
        last = hidden.index_select(0, layout.picked)
        logits = functional.linear(_norm(last, weights.final_norm, epsilon), weights.head)
        return logits[: len(layout.picked_rows)]

    def _attention(
        self, layout: Layout, index: int, layer: Layer, normed: Tensor, cosine: Tensor, sine: Tensor, kv: PagedKv
    ) -> Tensor:
        config = self.config
        queries_and_keys = config.heads + config.kv_heads
        fused = functional.linear(normed, layer.qkv, layer.qkv_bias).view(len(normed), -1, config.head_dim)
        turning, values = fused[:, :queries_and_keys], fused[:, queries_and_keys:]
        if layer.q_norm is not None and layer.k_norm is not None:
            queries = _norm(turning[:, : config.heads], layer.q_norm, config.norm_epsilon)
            keys = _norm(turning[:, config.heads :], layer.k_norm, config.norm_epsilon)
            turning = torch.cat((queries, keys), 1)
        turned = rope.rotate(turning, cosine, sine)
        queries, keys = turned[:, : config.heads], turned[:, config.heads :]
        count = layout.count
        kv.write(index, layout.places, keys[:count], values[:count])
        return self._attend(layout, queries, keys, values, kv, index, self._space)


def _norm(values: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return functional.rms_norm(values, (values.shape[-1],), weight, epsilon)
