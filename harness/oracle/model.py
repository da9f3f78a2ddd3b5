"""The arithmetic of Llama, Qwen2 and Qwen3 in float64.

x = embedding; each layer adds attention(norm(x)) and then mlp(norm(x)); logits = head(norm(x))

Weights are not fused, KV is one array for each sequence, and every prompt is computed whole: there are no pages,
chunks or kernels that could be wrong in the same way as those on trial.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.oracle.checkpoint import Reals, Settings, read_settings, read_tensors

_QUERIES_MAX = 256
"""Queries that attend at once, since the scores of a long prompt would not fit into memory."""


class Context:
    """One sequence: its K and V, each [layers, tokens_max, kv_heads, head_dim], of which `length` tokens are filled."""

    def __init__(self, settings: Settings, tokens_max: int) -> None:
        shape = (settings.layers, tokens_max, settings.kv_heads, settings.head_dim)
        self.keys, self.values = np.empty(shape), np.empty(shape)
        self.length = 0


class Model:
    """The model of a directory. Its tensors are known by the names that the file gives them."""

    def __init__(self, directory: Path) -> None:
        self.settings = read_settings(directory)
        self._tensors = read_tensors(directory)
        self._head = self._tensors["model.embed_tokens.weight" if self.settings.tied else "lm_head.weight"]

    def context(self, tokens_max: int) -> Context:
        """An empty sequence with room for `tokens_max` tokens."""
        return Context(self.settings, tokens_max)

    def logits(self, asked: Sequence[tuple[Context, Sequence[int]]]) -> Reals:
        """Append tokens to each sequence. Return the logits [sequences, vocabulary] behind the last token of each."""
        ends = np.cumsum([len(tokens) for _, tokens in asked])
        flat = [token for _, tokens in asked for token in tokens]
        positions = np.concatenate([context.length + np.arange(len(tokens)) for context, tokens in asked])
        angles = positions[:, None, None].astype(np.float32) * self.settings.frequencies
        turned = np.exp(1j * angles.astype(np.float64))
        hidden = self._tensors["model.embed_tokens.weight"][flat]
        for layer in range(self.settings.layers):
            name = f"model.layers.{layer}"
            normed = self._norm(hidden, f"{name}.input_layernorm")
            hidden = hidden + self._attention(layer, normed, turned, asked) @ self._matrix(f"{name}.self_attn.o_proj")
            normed = self._norm(hidden, f"{name}.post_attention_layernorm")
            gate = normed @ self._matrix(f"{name}.mlp.gate_proj")
            gated = gate / (1.0 + np.exp(-gate)) * (normed @ self._matrix(f"{name}.mlp.up_proj"))
            hidden = hidden + gated @ self._matrix(f"{name}.mlp.down_proj")
        for context, tokens in asked:
            context.length += len(tokens)
        logits: Reals = self._norm(hidden[ends - 1], "model.norm") @ self._head.T
        return logits

    def _attention(
        self, layer: int, normed: Reals, turned: np.ndarray, asked: Sequence[tuple[Context, Sequence[int]]]
    ) -> Reals:
        """The attention [tokens, heads * head_dim] of all new tokens, before its output projection."""
        queries, keys, values = (self._heads(layer, kind, normed) for kind in "qkv")
        queries, keys = _rotated(queries, turned), _rotated(keys, turned)
        parts, start = [], 0
        for context, tokens in asked:
            new, end = slice(start, start + len(tokens)), context.length + len(tokens)
            context.keys[layer, context.length : end] = keys[new]
            context.values[layer, context.length : end] = values[new]
            for first in range(0, len(tokens), _QUERIES_MAX):
                some = queries[new][first : first + _QUERIES_MAX]
                parts.append(_attend(some, context.length + first, context.keys[layer], context.values[layer]))
            start += len(tokens)
        return np.concatenate(parts).reshape(len(normed), -1)

    def _heads(self, layer: int, kind: str, normed: Reals) -> Reals:
        """The queries, keys or values [tokens, heads, head_dim], with the bias and the norm that the file has."""
        name = f"model.layers.{layer}.self_attn.{kind}"
        projected = normed @ self._matrix(f"{name}_proj") + self._tensors.get(f"{name}_proj.bias", 0.0)
        heads = projected.reshape(len(normed), -1, self.settings.head_dim)
        return self._norm(heads, f"{name}_norm") if f"{name}_norm.weight" in self._tensors else heads

    def _norm(self, values: Reals, name: str) -> Reals:
        squares = np.mean(values**2, axis=-1, keepdims=True)
        normed: Reals = values / np.sqrt(squares + self.settings.epsilon) * self._tensors[f"{name}.weight"]
        return normed

    def _matrix(self, name: str) -> Reals:
        return self._tensors[f"{name}.weight"].T


def log_probabilities(logits: Reals) -> Reals:
    """The logarithms of the softmax over the last axis."""
    shifted: Reals = logits - logits.max(axis=-1, keepdims=True)
    normalised: Reals = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return normalised


def _rotated(heads: Reals, turned: np.ndarray) -> Reals:
    """`heads` [tokens, heads, head_dim] turned by the angles of their positions: element i and element i + head_dim / 2
    are the real and the imaginary part of one number."""
    half = heads.shape[-1] // 2
    pairs = (heads[..., :half] + 1j * heads[..., half:]) * turned
    return np.concatenate((pairs.real, pairs.imag), axis=-1)


def _attend(queries: Reals, first: int, keys: Reals, values: Reals) -> Reals:
    """Attention of `queries` [tokens, heads, head_dim], of which the first stands at position `first`, over K and V
    [tokens_max, kv_heads, head_dim]. Each sees the tokens up to itself."""
    count, heads, head_dim = queries.shape
    end, kv_heads = first + count, keys.shape[1]
    grouped = queries.reshape(count, kv_heads, heads // kv_heads, head_dim).transpose(1, 2, 0, 3)
    seen = keys[:end].transpose(1, 2, 0)[:, None], values[:end].transpose(1, 0, 2)[:, None]
    scores = grouped @ seen[0] / np.sqrt(head_dim)
    scores[..., np.arange(end)[None, :] > first + np.arange(count)[:, None]] = -np.inf
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    attended: Reals = shares / shares.sum(axis=-1, keepdims=True) @ seen[1]
    return attended.transpose(2, 0, 1, 3)
