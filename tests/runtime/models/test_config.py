"""What a config may ask for is built or refused by name, all reasons at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from runtime.models.config import ModelRefused, read_config

PLAIN: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "eos_token_id": [7, 8],
}


def write(folder: Path, **changes: Any) -> Path:
    (folder / "config.json").write_text(json.dumps({**PLAIN, **changes}))
    return folder


def test_sizes_and_defaults_are_read(tmp_path: Path) -> None:
    config = read_config(write(tmp_path))
    assert (config.head_dim, config.kv_heads, config.context_max) == (8, 2, 64)
    assert (config.rope.kind, config.rope.theta) == ("default", 500000.0)
    assert config.eos_tokens == [7, 8]
    assert not (config.tied or config.qkv_bias or config.qk_norm)
    assert config.kv_bytes(10) == 10 * 2 * 2 * 2 * 8 * 4


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("kind", ["rope_type", "type"])
def test_both_spellings_of_rope_scaling_are_read(tmp_path: Path, key: str, kind: str) -> None:
    config = read_config(write(tmp_path, **{key: {kind: "linear", "factor": 2.0}}))
    assert (config.rope.kind, config.rope.theta, config.rope.factor) == ("linear", 500000.0, 2.0)


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"architectures": ["MixtralForCausalLM"]}, "MixtralForCausalLM"),
    ({"architectures": None}, "architectures is missing"),
    ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope type is 'yarn'"),
    ({"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, "rope type is 'dynamic'"),
    ({"rope_parameters": {"rope_type": "longrope"}}, "rope type is 'longrope'"),
    ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "differ by layer type"),
    ({"rope_parameters": {"rope_type": "default", "mrope_section": [1, 2, 3]}}, "mrope_section"),
    ({"rope_scaling": {"type": "linear"}}, "factor is None"),
    ({"use_sliding_window": True, "sliding_window": 4096}, "sliding_window 4096"),
    ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
    ({"attention_bias": True}, "attention_bias"),
    ({"mlp_bias": True}, "mlp_bias"),
    ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
    ({"num_local_experts": 8}, "num_local_experts"),
    ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ({"hidden_act": "gelu"}, "hidden_act"),
    ({"num_attention_heads": 3}, "not a multiple"),
    ({"head_dim": 7}, "head_dim 7 is odd"),
    ({"hidden_size": 36}, "head_dim 9 is odd"),
    ({"vocab_size": True}, "vocab_size is True; give a whole number"),
    ({"eos_token_id": [7, "x"]}, "eos_token_id.1 is 'x'; give a whole number"),
    ({"vocab_size": "100"}, "vocab_size is '100'"),
    ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
    ({"rms_norm_eps": 0}, "rms_norm_eps is 0"),
    ({"eos_token_id": "x"}, "eos_token_id"),
]


@pytest.mark.parametrize(("changes", "told"), REFUSALS, ids=[told for _, told in REFUSALS])
def test_what_is_not_built_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ModelRefused) as refused:
        read_config(write(tmp_path, **changes))
    assert told in str(refused.value)


def test_all_reasons_come_at_once(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused) as refused:
        read_config(write(tmp_path, mlp_bias=True, hidden_act="relu", rope_scaling={"type": "yarn"}))
    assert len(refused.value.problems) == 3


def test_a_qwen3_without_head_dim_has_128(tmp_path: Path) -> None:
    assert read_config(write(tmp_path, architectures=["Qwen3ForCausalLM"])).head_dim == 128


def test_harmless_keys_of_real_configs_are_accepted(tmp_path: Path) -> None:
    changes = {
        "use_sliding_window": False,
        "sliding_window": 4096,
        "layer_types": ["full_attention"] * 2,
        "attention_bias": False,
        "rope_scaling": None,
        "quantization_config": None,
    }
    read_config(write(tmp_path, **changes))


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_a_directory_without_a_usable_config_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelRefused, match=r"config\.json"):
        read_config(tmp_path)
