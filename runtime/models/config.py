"""Reads a Hugging Face `config.json`, and refuses every model that would be computed wrongly.

    LlamaForCausalLM    RMSNorm, RoPE, GQA, SwiGLU
    Qwen2ForCausalLM    as Llama, with a bias on q, k and v
    Qwen3ForCausalLM    as Llama, with RMSNorm on each head of q and k

A decoder that ignores a key it does not know still writes fluent text, so each key that changes the computation is
either understood or refused, and all refusals come in one error.
"""

import json
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


def read_config(directory: Path) -> "DecoderConfig":
    """The decoder that `directory/config.json` describes. Raises ModelRefused with every reason at once."""
    raw = read_table(directory, "config.json")
    if raw is None:
        raise ModelRefused(directory, ["there is no config.json; give a Hugging Face model directory"])
    try:
        # null means absent, as for transformers.
        return DecoderConfig.model_validate({key: value for key, value in raw.items() if value is not None})
    except ValidationError as error:
        raise ModelRefused(directory, problems(error)) from None


def read_table(directory: Path, name: str) -> dict[str, object] | None:
    """The JSON object in the file `name` of a model directory; None when there is no such file. Raises ModelRefused."""
    try:
        raw = json.loads((directory / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ModelRefused(directory, [f"{name} is not JSON: {error}"]) from None
    if not isinstance(raw, dict):
        raise ModelRefused(directory, [f"{name} is not an object"])
    return raw


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


_ROTATED = _only("only whole heads are rotated", None, 1)
_EXPERTS = _only("mixtures of experts are not built", 0)


class _Lenient(BaseModel):
    """A table with strict types. Keys that no field names do not change the computation and are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class Rope(_Lenient):
    """Rotary positions. `kind` is default, linear (positions divided by `factor`) or llama3 (long waves only). The keys
    have two spellings: `rope_parameters` of transformers 5, and `rope_theta` with `rope_scaling` of older versions."""

    kind: str = Field("default", validation_alias=AliasChoices("rope_type", "type"))
    theta: Positive = Field(validation_alias="rope_theta")
    factor: Positive = 1.0
    low_freq_factor: Positive = 1.0
    high_freq_factor: Positive = 4.0
    original_context: Count = Field(8192, validation_alias="original_max_position_embeddings")
    """Tokens; the context that llama3 scaling was trained from."""
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
        factors = ("factor", "low_freq_factor", "high_freq_factor")
        wanted = {"default": (), "linear": ("factor",)}.get(self.kind, factors)
        if absent := [f"{name} is None" for name in wanted if name not in self.model_fields_set]:
            raise ValueError(f"{', '.join(absent)}; rope type {self.kind!r} needs a number above 0")
        if self.kind == "llama3" and self.high_freq_factor <= self.low_freq_factor:
            text = f"high_freq_factor {self.high_freq_factor} must be above low_freq_factor {self.low_freq_factor}"
            raise ValueError(text)
        return self


class DecoderConfig(_Lenient):
    """The sizes and switches of one decoder: the keys of `config.json` that change the computation. A check of two keys
    stands at the later one."""

    architectures: list[str]
    vocabulary: Count = Field(validation_alias="vocab_size")
    hidden: Count = Field(validation_alias="hidden_size")
    intermediate: Count = Field(validation_alias="intermediate_size")
    layers: Count = Field(validation_alias="num_hidden_layers")
    heads: Count = Field(validation_alias="num_attention_heads")
    kv_heads: Count = Field(None, validation_alias="num_key_value_heads", validate_default=True)
    head_dim: Count = Field(None, validate_default=True)
    context_max: Count = Field(validation_alias="max_position_embeddings")
    """Tokens, prompt and output together."""
    norm_epsilon: Positive = Field(1e-6, validation_alias="rms_norm_eps")  # of all three transformers config classes
    tied: bool = Field(False, validation_alias="tie_word_embeddings")
    """True where the output head is the embedding."""
    eos_tokens: Annotated[list[int], BeforeValidator(lambda one: one if isinstance(one, list) else [one])] = Field(
        [], validation_alias="eos_token_id"
    )
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
    rope: Rope = Field(None, validate_default=True)
    """Made of the three keys above."""

    @property
    def qkv_bias(self) -> bool:
        """True where q, k and v have a bias."""
        return self.architectures == ["Qwen2ForCausalLM"]

    @property
    def qk_norm(self) -> bool:
        """True where each head of q and k has an RMSNorm."""
        return self.architectures == ["Qwen3ForCausalLM"]

    def kv_bytes(self, tokens: int, element_bytes: int = 4) -> int:
        """Bytes of K and V that `tokens` tokens take over all layers."""
        return tokens * self.layers * 2 * self.kv_heads * self.head_dim * element_bytes

    @field_validator("architectures")
    @classmethod
    def _known(cls, architectures: list[str]) -> list[str]:
        if len(architectures) != 1 or architectures[0] not in _ARCHITECTURES:
            raise ValueError(f"architectures is {architectures!r}; one of {', '.join(_ARCHITECTURES)} can be served")
        return architectures

    @field_validator("kv_heads", "head_dim", mode="before")
    @classmethod
    def _derived(cls, given: object, info: ValidationInfo) -> object:
        """Fills in an absent key with the default of the architecture's config class."""
        heads, hidden = info.data.get("heads", 1), info.data.get("hidden", 2)
        if given is not None or info.field_name == "kv_heads":
            return heads if given is None else given
        return 128 if info.data.get("architectures") == ["Qwen3ForCausalLM"] else max(1, hidden // heads)

    @field_validator("kv_heads")
    @classmethod
    def _divides(cls, kv_heads: int, info: ValidationInfo) -> int:
        heads = info.data.get("heads", kv_heads)
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
        defaults = {
            "rope_theta": data.get("rope_theta", 1.0),
            "original_max_position_embeddings": data.get("context_max", 1),
        }
        return {**defaults, **given}
