"""Reads a Hugging Face model directory with `json` and NumPy alone: the settings of the decoder, and its tensors.

A safetensors file is the length of its header (8 bytes, little endian), the header in JSON, then the bytes of the
tensors: https://huggingface.co/docs/safetensors. Biases and norms of heads are taken where the file has them.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


@dataclass(frozen=True)
class Settings:
    """The keys of `config.json` that the arithmetic needs."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    epsilon: float
    tied: bool
    frequencies: npt.NDArray[np.float32]
    """[head_dim / 2]: radians per token of each rotated pair. `transformers` computes angles in float32 whatever the
    dtype of the weights, which is part of the model: in float64 the logits of 500 tokens differ by 3e-5."""
    stops: frozenset[int]
    """Tokens that end a reply."""


def read_settings(directory: Path) -> Settings:
    """The settings of the model in `directory`."""
    raw = _json(directory / "config.json")
    heads = int(raw["num_attention_heads"])
    qwen3 = raw["architectures"] == ["Qwen3ForCausalLM"]
    head_dim = int(raw.get("head_dim") or (128 if qwen3 else raw["hidden_size"] // heads))
    return Settings(
        layers=int(raw["num_hidden_layers"]),
        heads=heads,
        kv_heads=int(raw.get("num_key_value_heads") or heads),
        head_dim=head_dim,
        vocabulary=int(raw["vocab_size"]),
        epsilon=float(raw.get("rms_norm_eps") or 1e-6),
        tied=bool(raw.get("tie_word_embeddings")),
        frequencies=_frequencies(raw, head_dim).astype(np.float32),
        stops=frozenset(_stops(raw)) | frozenset(_stops(_json(directory / "generation_config.json"))),
    )


def read_tensors(directory: Path) -> dict[str, Reals]:
    """Every tensor of the model by its name, in float64."""
    index = _json(directory / "model.safetensors.index.json")
    files = sorted(set(index["weight_map"].values())) if index else ["model.safetensors"]
    return {name: tensor for file in files for name, tensor in _tensors(directory / file)}


def _tensors(path: Path) -> Iterator[tuple[str, Reals]]:
    whole = np.memmap(path, np.uint8, "r")
    start = 8 + int(whole[:8].view("<u8")[0])
    for name, entry in json.loads(whole[8:start].tobytes()).items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        values = np.frombuffer(whole[start + first : start + last].tobytes(), _DTYPES[entry["dtype"]])
        if entry["dtype"] == "BF16":  # the upper half of a float32
            values = (values.astype(np.uint32) << 16).view(np.float32)
        yield name, values.astype(np.float64).reshape(entry["shape"])


def _frequencies(raw: dict[str, Any], head_dim: int) -> Reals:
    """The frequencies of rotary positions: plain, linear (divided by `factor`), or Llama 3's, which divides only the
    slow ones and blends between two bounds."""
    rope = {**(raw.get("rope_scaling") or {}), **(raw.get("rope_parameters") or {})}
    theta = float(rope.get("rope_theta") or raw.get("rope_theta") or 10_000.0)
    exponents = (np.arange(0, head_dim, 2) / head_dim).astype(np.float32)
    plain = (1 / np.float32(theta) ** exponents).astype(np.float64)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return plain
    factor = float(rope["factor"])
    if kind == "linear":
        return plain / factor
    if kind != "llama3":
        raise ValueError(f"rope type {kind!r} is not known")
    slow, fast = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    trained = float(rope.get("original_max_position_embeddings") or raw["max_position_embeddings"])
    turns = trained * plain / (2 * math.pi)  # of each pair within the context that was trained
    kept = np.clip((turns - slow) / (fast - slow), 0.0, 1.0)
    return plain * (kept + (1.0 - kept) / factor)


def _stops(raw: dict[str, Any]) -> list[int]:
    named = raw.get("eos_token_id")
    return [token for token in (named if isinstance(named, list) else [named]) if isinstance(token, int)]


def _json(path: Path) -> dict[str, Any]:
    """The object in a file; empty when there is no such file."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found
