"""Reads a Hugging Face `config.json`, and refuses every model that would be computed wrongly.

    LlamaForCausalLM    RMSNorm, RoPE, GQA, SwiGLU
    Qwen2ForCausalLM    as Llama, with a bias on q, k and v
    Qwen3ForCausalLM    as Llama, with RMSNorm on each head of q and k

A decoder that ignores a key it does not know still writes fluent text, so each key that changes the computation is
either understood or refused, and all refusals come in one error.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from runtime.config_errors import problems


class ModelRefused(ValueError):
    """A model directory can't be served. `problems` holds every reason, each with the value that was found."""

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
    """True where the output head is the embedding."""
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
    try:
        # null means absent, as for transformers.
        found = _HuggingFace.model_validate({key: value for key, value in raw.items() if value is not None})
    except ValidationError as error:
        raise ModelRefused(directory, problems(error)) from None
    return found.decoder()


_ARCHITECTURES = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
_ROPES = ("default", "linear", "llama3")

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _only(rule: str, *built: object) -> BeforeValidator:
    """A validator of a key that changes the computation: it refuses each value that is not `built`, with `rule`."""

    def check(value: object, info: ValidationInfo) -> object:
        if value not in built:
            raise ValueError(f"{info.field_name} is {value!r}; {rule}")
        return value

    return BeforeValidator(check)


class _Lenient(BaseModel):
    """A table with strict types. Keys that no field names do not change the computation and are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


_ROTATED = _only("only whole heads are rotated", None, 1)


class _RopeTable(_Lenient):
    """The rope settings, in both spellings: `rope_parameters` of transformers 5, and `rope_theta` with `rope_scaling`
    of older versions."""

    kind: str = Field("default", validation_alias=AliasChoices("rope_type", "type"))
    rope_theta: Positive
    factor: Positive | None = None
    low_freq_factor: Positive | None = None
    high_freq_factor: Positive | None = None
    original_max_position_embeddings: Count | None = None
    partial_rotary_factor: Annotated[object, _ROTATED] = None
    mrope_section: Annotated[object, _only("positions of one dimension are built", None)] = None

    @field_validator("kind")
    @classmethod
    def _built(cls, kind: str) -> str:
        if kind not in _ROPES:
            raise ValueError(f"rope type is {kind!r}; one of {', '.join(_ROPES)} is built")
        return kind

    @model_validator(mode="after")
    def _complete(self) -> Self:
        wanted = {"default": (), "linear": ("factor",)}.get(
            self.kind, ("factor", "low_freq_factor", "high_freq_factor")
        )
        if absent := [f"{name} is None" for name in wanted if getattr(self, name) is None]:
            raise ValueError(f"{', '.join(absent)}; rope type {self.kind!r} needs a number above 0")
        low, high = self.low_freq_factor, self.high_freq_factor
        if self.kind == "llama3" and low is not None and high is not None and high <= low:
            raise ValueError(f"high_freq_factor {high} must be above low_freq_factor {low}")
        return self

    def rope(self, context_max: int) -> Rope:
        if self.kind == "default":
            return Rope("default", self.rope_theta)
        assert self.factor is not None
        if self.kind == "linear":
            return Rope("linear", self.rope_theta, self.factor)
        assert self.low_freq_factor is not None and self.high_freq_factor is not None
        original = self.original_max_position_embeddings or context_max
        return Rope("llama3", self.rope_theta, self.factor, self.low_freq_factor, self.high_freq_factor, original)


_EXPERTS = _only("mixtures of experts are not built", 0)


class _HuggingFace(_Lenient):
    """The keys of `config.json` that change the computation. A check of two keys stands at the later one."""

    architectures: list[str]
    vocab_size: Count
    hidden_size: Count
    intermediate_size: Count
    num_hidden_layers: Count
    num_attention_heads: Count
    num_key_value_heads: Count = Field(None, validate_default=True)
    head_dim: Count = Field(None, validate_default=True)
    max_position_embeddings: Count
    rms_norm_eps: Positive = 1e-6  # of all three transformers config classes
    tie_word_embeddings: bool = False
    eos_token_id: Annotated[list[int], BeforeValidator(lambda one: one if isinstance(one, list) else [one])] = []
    hidden_act: Annotated[object, _only("only silu is built", "silu")] = "silu"
    quantization_config: Annotated[object, _only("only plain float weights are read", None)] = None
    attention_bias: bool = False
    mlp_bias: Annotated[object, _only("it is not built", False)] = False
    partial_rotary_factor: Annotated[object, _ROTATED] = None
    layer_types: list[str] = []
    use_sliding_window: bool = False
    sliding_window: int | None = None
    num_experts: Annotated[object, _EXPERTS] = 0
    num_local_experts: Annotated[object, _EXPERTS] = 0
    n_routed_experts: Annotated[object, _EXPERTS] = 0
    rope_theta: Positive = 10_000.0
    rope_scaling: dict[str, object] = {}
    rope_parameters: dict[str, object] = {}
    rope: _RopeTable = Field(None, validate_default=True)
    """Made of the three keys above."""

    @field_validator("architectures")
    @classmethod
    def _known(cls, architectures: list[str]) -> list[str]:
        if len(architectures) != 1 or architectures[0] not in _ARCHITECTURES:
            raise ValueError(f"architectures is {architectures!r}; one of {', '.join(_ARCHITECTURES)} can be served")
        return architectures

    @field_validator("num_key_value_heads", "head_dim", mode="before")
    @classmethod
    def _derived(cls, given: object, info: ValidationInfo) -> object:
        """Fills in an absent key with the default of the architecture's config class."""
        heads, hidden = info.data.get("num_attention_heads", 1), info.data.get("hidden_size", 2)
        if given is not None or info.field_name == "num_key_value_heads":
            return heads if given is None else given
        return 128 if info.data.get("architectures") == ["Qwen3ForCausalLM"] else max(1, hidden // heads)

    @field_validator("num_key_value_heads")
    @classmethod
    def _divides(cls, kv_heads: int, info: ValidationInfo) -> int:
        heads = info.data.get("num_attention_heads", kv_heads)
        if heads % kv_heads:
            raise ValueError(f"num_attention_heads {heads} is not a multiple of num_key_value_heads {kv_heads}")
        return kv_heads

    @field_validator("head_dim")
    @classmethod
    def _even(cls, head_dim: int) -> int:
        if head_dim % 2:
            raise ValueError(f"head_dim {head_dim} is odd; rotary positions need pairs")
        return head_dim

    @field_validator("attention_bias")
    @classmethod
    def _bias(cls, bias: bool, info: ValidationInfo) -> bool:
        if bias and info.data.get("architectures") != ["Qwen2ForCausalLM"]:
            raise ValueError("attention_bias is on; only Qwen2's bias on q, k and v is built")
        return bias

    @field_validator("layer_types")
    @classmethod
    def _full(cls, kinds: list[str]) -> list[str]:
        if odd := sorted(set(kinds) - {"full_attention"}):
            raise ValueError(f"layer_types has {', '.join(odd)}; only full_attention is built")
        return kinds

    @field_validator("sliding_window")
    @classmethod
    def _unused(cls, window: int, info: ValidationInfo) -> int:
        if info.data.get("use_sliding_window"):
            raise ValueError(f"sliding_window {window} is in use; only full attention is built")
        return window

    @field_validator("rope", mode="before")
    @classmethod
    def _merged(cls, _: object, info: ValidationInfo) -> dict[str, object]:
        data = info.data
        scaling: dict[str, object] = {**data.get("rope_scaling", {}), **data.get("rope_parameters", {})}
        if nested := sorted(key for key, value in scaling.items() if isinstance(value, dict)):
            listed = ", ".join(nested)
            raise ValueError(f"rope_parameters differ by layer type ({listed}); one rope for all layers is built")
        given = {key: value for key, value in scaling.items() if value is not None}
        return {"rope_theta": data.get("rope_theta", 1.0), **given}

    def decoder(self) -> DecoderConfig:
        """The config of the decoder."""
        (architecture,) = self.architectures
        return DecoderConfig(
            architecture=architecture,
            vocabulary=self.vocab_size,
            hidden=self.hidden_size,
            intermediate=self.intermediate_size,
            layers=self.num_hidden_layers,
            heads=self.num_attention_heads,
            kv_heads=self.num_key_value_heads,
            head_dim=self.head_dim,
            norm_epsilon=self.rms_norm_eps,
            rope=self.rope.rope(self.max_position_embeddings),
            context_max=self.max_position_embeddings,
            tied=self.tie_word_embeddings,
            qkv_bias=architecture == "Qwen2ForCausalLM",
            qk_norm=architecture == "Qwen3ForCausalLM",
            eos_tokens=tuple(self.eos_token_id),
        )
