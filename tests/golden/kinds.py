"""Every kind of model: each architecture, and each key of `config.json` that changes the computation, in each spelling.

`runtime/models/config.py` says which keys those are; test_runtime.py holds this table to it.
"""

from typing import Any

_SIZES: dict[str, Any] = {
    "vocab_size": 260,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "dtype": "float32",
}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
EMBEDDED = "embedded"
"""The kind whose files the product writes itself (`runtime/models/default.py`)."""


def _kind(architecture: str, **changes: Any) -> dict[str, Any]:
    """A config.json; a change to None takes the key out."""
    names = {"architectures": [f"{architecture}ForCausalLM"], "model_type": architecture.lower()}
    return {key: value for key, value in {**_SIZES, **names, **changes}.items() if value is not None}


KINDS: dict[str, dict[str, Any]] = {
    "llama-gqa": _kind("Llama", rope_parameters={"rope_type": "default", "rope_theta": 10_000.0}),
    "llama-mha-tied-old-theta": _kind(
        "Llama",
        num_key_value_heads=None,
        head_dim=None,
        tie_word_embeddings=True,
        rope_theta=50_000.0,
        rms_norm_eps=None,
    ),
    "llama-mqa-wide-heads-large-epsilon": _kind("Llama", num_key_value_heads=1, head_dim=20, rms_norm_eps=0.05),
    "llama-linear-old-spelling": _kind(
        "Llama", rope_theta=20_000.0, rope_scaling={"type": "linear", "factor": 2.0}, eos_token_id=[2, 3]
    ),
    "llama-llama3": _kind("Llama", rope_parameters={**_LLAMA3, "rope_theta": 5_000.0}),
    "llama-llama3-old-bfloat16": _kind("Llama", rope_theta=500_000.0, rope_scaling=_LLAMA3, dtype="bfloat16"),
    "qwen2-gqa": _kind(
        "Qwen2", num_key_value_heads=3, head_dim=None, sliding_window=64, use_sliding_window=False, max_window_layers=1
    ),
    "qwen2-tied-float16": _kind("Qwen2", tie_word_embeddings=True, head_dim=None, rms_norm_eps=1e-3, dtype="float16"),
    "qwen3-gqa-sharded": _kind("Qwen3", head_dim=12, layer_types=["full_attention", "full_attention"]),
    "qwen3-tied-linear": _kind(
        "Qwen3",
        head_dim=None,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "linear", "rope_theta": 30_000.0, "factor": 3.0},
    ),
}

BLOCK, CHUNK = 16, 64
"""Tokens of a KV block, of a bucket of rows (`buffers.BUCKET`) and of the padding of exact mode (`prepare.PAD`); tokens
of a chunk of these tests and of a tile of exact mode (`prepare.TILE`)."""
LENGTHS = (1, 2, *(edge + n for edge in (BLOCK, 2 * BLOCK, CHUNK, 2 * CHUNK) for n in (-1, 0, 1)), 200)
"""Prompt lengths below, at and above each edge."""
LENGTHS_EMBEDDED = (*LENGTHS, *(512 + n for n in (-1, 0, 1)), 700)
"""512 is the largest chunk of the built-in engine as it is served (`token_budget`)."""
OUTPUT = 18
"""Tokens of each reply: every one crosses the edge of a block, whatever the length of its prompt."""
