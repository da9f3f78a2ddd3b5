"""What a Hugging Face `config.json` asks for, and a refusal of everything that would be answered wrongly.

    LlamaForCausalLM    RMSNorm, RoPE, GQA, SwiGLU
    Qwen2ForCausalLM    the same with a bias on q, k and v
    Qwen3ForCausalLM    the same with RMSNorm on each head of q and k

A decoder that ignores a key it does not know still writes fluent text, so each key that changes the computation is
either understood or refused, and all refusals come in one error.
"""

import json
from dataclasses import dataclass
from pathlib import Path

Json = dict[str, object]


class ModelRefused(ValueError):
    """A model directory that can't be served; `problems` holds every reason, each with the value that was found."""

    def __init__(self, directory: Path, problems: list[str]) -> None:
        super().__init__(f"{directory}: " + "; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions. `kind` is default, linear (positions divided by `factor`) or llama3 (long waves only)."""

    kind: str
    theta: float
    factor: float = 1.0
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    original_context: int = 8192
    """Tokens; the context that llama3 scaling was trained from."""


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """The sizes and switches of one decoder; every number is checked by `read_config`."""

    architecture: str
    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_epsilon: float
    rope: Rope
    context_max: int
    """Tokens, prompt and output together."""
    tied: bool
    """Whether the output head is the embedding."""
    qkv_bias: bool
    qk_norm: bool
    eos_tokens: tuple[int, ...]

    def kv_bytes(self, tokens: int, element_bytes: int = 4) -> int:
        """Bytes of K and V that `tokens` tokens take over all layers."""
        return tokens * self.layers * 2 * self.kv_heads * self.head_dim * element_bytes


def read_config(directory: Path) -> DecoderConfig:
    """The decoder that `directory/config.json` describes. Raises ModelRefused with every reason at once."""
    path = directory / "config.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelRefused(directory, ["there is no config.json; give a Hugging Face model directory"]) from None
    except ValueError as error:
        raise ModelRefused(directory, [f"config.json is not JSON: {error}"]) from None
    if not isinstance(raw, dict):
        raise ModelRefused(directory, ["config.json is not an object"])
    reader = _Reader(raw)
    config = _decoder(reader)
    if reader.problems or config is None:
        raise ModelRefused(directory, reader.problems)
    return config


_ARCHITECTURES = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
_DEFAULT_EPSILON = 1e-6  # of all three transformers config classes
_ROPES = ("default", "linear", "llama3")


class _Reader:
    """Typed look-ups that collect problems instead of stopping at the first."""

    def __init__(self, raw: Json) -> None:
        self.raw = raw
        self.problems: list[str] = []

    def refuse(self, problem: str) -> None:
        self.problems.append(problem)

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number above zero."""
        value = self.raw.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.refuse(f"{key} is {value!r}; it must be a whole number above 0")
            return 1
        return value

    def real(self, raw: Json, key: str, default: float | None = None) -> float:
        """A number above zero."""
        value = raw.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            self.refuse(f"{key} is {value!r}; it must be a number above 0")
            return 1.0
        return float(value)


def _decoder(reader: _Reader) -> DecoderConfig | None:
    architecture = _architecture(reader)
    if architecture is None:
        return None
    _refuse_what_is_not_built(reader, architecture)
    heads = reader.count("num_attention_heads")
    hidden = reader.count("hidden_size")
    # Qwen3's config class says 128 when the key is absent; the others divide.
    head_dim = reader.count("head_dim", 128 if architecture == "Qwen3ForCausalLM" else max(1, hidden // heads))
    kv_heads = reader.count("num_key_value_heads", heads)
    if heads % kv_heads:
        reader.refuse(f"num_attention_heads {heads} is not a multiple of num_key_value_heads {kv_heads}")
    if head_dim % 2:
        reader.refuse(f"head_dim {head_dim} is odd; rotary positions need pairs")
    context_max = reader.count("max_position_embeddings")
    return DecoderConfig(
        architecture=architecture,
        vocabulary=reader.count("vocab_size"),
        hidden=hidden,
        intermediate=reader.count("intermediate_size"),
        layers=reader.count("num_hidden_layers"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        norm_epsilon=reader.real(reader.raw, "rms_norm_eps", _DEFAULT_EPSILON),
        rope=_rope(reader, context_max),
        context_max=context_max,
        tied=bool(reader.raw.get("tie_word_embeddings", False)),
        qkv_bias=architecture == "Qwen2ForCausalLM",
        qk_norm=architecture == "Qwen3ForCausalLM",
        eos_tokens=_tokens(reader, "eos_token_id"),
    )


def _architecture(reader: _Reader) -> str | None:
    named = reader.raw.get("architectures")
    allowed = ", ".join(_ARCHITECTURES)
    if not isinstance(named, list) or len(named) != 1 or named[0] not in _ARCHITECTURES:
        reader.refuse(f"architectures is {named!r}; one of {allowed} can be served")
        return None
    return str(named[0])


def _refuse_what_is_not_built(reader: _Reader, architecture: str) -> None:
    raw = reader.raw
    if raw.get("hidden_act", "silu") != "silu":
        reader.refuse(f"hidden_act is {raw['hidden_act']!r}; only silu is built")
    if raw.get("quantization_config") is not None:
        reader.refuse("quantization_config is set; only plain float weights are read")
    if raw.get("attention_bias") and architecture != "Qwen2ForCausalLM":
        reader.refuse("attention_bias is on; only Qwen2's bias on q, k and v is built")
    if raw.get("mlp_bias"):
        reader.refuse("mlp_bias is on; it is not built")
    if raw.get("partial_rotary_factor", 1) not in (None, 1):
        reader.refuse(f"partial_rotary_factor is {raw['partial_rotary_factor']!r}; only whole heads are rotated")
    layer_types = raw.get("layer_types")
    kinds = {str(kind) for kind in layer_types} if isinstance(layer_types, list) else set()
    odd = sorted(kinds - {"full_attention"})
    if odd:
        reader.refuse(f"layer_types has {', '.join(odd)}; only full_attention is built")
    if raw.get("use_sliding_window") and raw.get("sliding_window") is not None and not odd:
        reader.refuse(f"sliding_window {raw['sliding_window']!r} is in use; only full attention is built")
    experts = [key for key in ("num_experts", "num_local_experts", "n_routed_experts") if raw.get(key)]
    if experts:
        reader.refuse(f"{', '.join(experts)} is set; mixtures of experts are not built")


def _rope(reader: _Reader, context_max: int) -> Rope:
    """Both spellings: `rope_parameters` of transformers 5, and `rope_theta` with `rope_scaling` before it."""
    scaling: Json = {}
    for key in ("rope_scaling", "rope_parameters"):
        value = reader.raw.get(key)
        if isinstance(value, dict):
            scaling |= value
        elif value is not None:
            reader.refuse(f"{key} is {value!r}; it must be an object or null")
    nested = sorted(key for key, value in scaling.items() if isinstance(value, dict))
    if nested:
        reader.refuse(f"rope_parameters differ by layer type ({', '.join(nested)}); one rope for all layers is built")
        return Rope("default", 1.0)
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in _ROPES:
        reader.refuse(f"rope type is {kind!r}; one of {', '.join(_ROPES)} is built")
        return Rope("default", 1.0)
    if scaling.get("partial_rotary_factor", 1) not in (None, 1):
        reader.refuse(f"partial_rotary_factor is {scaling['partial_rotary_factor']!r}; only whole heads are rotated")
    if scaling.get("mrope_section") is not None:
        reader.refuse("mrope_section is set; positions of one dimension are built")
    theta = reader.real(scaling if "rope_theta" in scaling else reader.raw, "rope_theta", 10_000.0)
    if kind == "default":
        return Rope("default", theta)
    factor = reader.real(scaling, "factor")
    if kind == "linear":
        return Rope("linear", theta, factor)
    low, high = reader.real(scaling, "low_freq_factor"), reader.real(scaling, "high_freq_factor")
    if high <= low and not reader.problems:
        reader.refuse(f"high_freq_factor {high} must be above low_freq_factor {low}")
    original = int(reader.real(scaling, "original_max_position_embeddings", float(context_max)))
    return Rope("llama3", theta, factor, low, high, original)


def _tokens(reader: _Reader, key: str) -> tuple[int, ...]:
    value = reader.raw.get(key)
    listed = value if isinstance(value, list) else [] if value is None else [value]
    if any(isinstance(token, bool) or not isinstance(token, int) for token in listed):
        reader.refuse(f"{key} is {value!r}; it must be a token id or a list of them")
        return ()
    return tuple(listed)
