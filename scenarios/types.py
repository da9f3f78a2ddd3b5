"""Types of scenario keys: scalar types with a unit, and the base class of all tables.

A table is frozen and refuses unknown keys. Attribute, TOML key and JSON key have one name (`for` is `for_` in Python).
TOML's "40m" is 2400.0 in Python and in plan.json. Times are seconds, sizes are bytes, rates are per second.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.types import Strict

from scenarios import distributions, units
from scenarios.units import InvalidValue

PLAIN: Final = "plain"  # context key: values come from plan.json and are numbers already
KEYS: Final = "keys"  # context key: a dict that tables fill with {id of the raw table: its known keys}

T = TypeVar("T")


class ScenarioTable(BaseModel):
    """The base class of all tables."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _record_keys(cls, raw: Any, info: ValidationInfo) -> Any:
        """Record the known keys of this raw table, so that the reader can suggest one for an unknown key."""
        if info.context and isinstance(raw, dict) and KEYS in info.context:
            info.context[KEYS][id(raw)] = keys_of(cls)
        return raw


def keys_of(table: type[BaseModel]) -> tuple[str, ...]:
    """The TOML keys of a table, in the order of the schema."""
    return tuple(field.alias or name for name, field in table.model_fields.items())


def _unless_plain(parse: Callable[[object], Any]) -> BeforeValidator:
    """A validator that applies `parse` to TOML values and lets numbers of a plan pass."""

    def validate(value: Any, info: ValidationInfo) -> Any:
        plain = bool(info.context and info.context.get(PLAIN))
        return value if plain and not isinstance(value, str) else parse(value)

    return BeforeValidator(validate)


def _positive_seconds(value: object) -> float:
    seconds = units.parse_seconds(value)
    if seconds <= 0:
        raise InvalidValue("the time is above 0")
    return seconds


def _text_schema(pattern: str, example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example]})


_SHARE_SCHEMA: Final = WithJsonSchema(
    {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "pattern": units.SHARE_PATTERN}]}
)
_DISTRIBUTION_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "title": "a constant"},
        {
            "type": "array",
            "items": {"type": "integer", "minimum": 1},
            "minItems": 2,
            "maxItems": 2,
            "title": "[low, high]",
        },
        {
            "type": "object",
            "title": "lognormal",
            "properties": {
                "lognormal": {
                    "type": "array",
                    "items": {"type": "number"},
                    "minItems": 2,
                    "maxItems": 2,
                    "description": "median in tokens, sigma of the logarithm",
                },
                "max": {"type": "integer", "minimum": 1, "description": "the distribution is truncated here"},
            },
            "required": ["lognormal", "max"],
            "additionalProperties": False,
        },
    ]
}

Seconds = Annotated[float, _unless_plain(units.parse_seconds), _text_schema(units.DURATION_PATTERN, "30s")]
PositiveSeconds = Annotated[float, _unless_plain(_positive_seconds), _text_schema(units.DURATION_PATTERN, "30s")]
ByteSize = Annotated[int, _unless_plain(units.parse_bytes), _text_schema(units.SIZE_PATTERN, "4GiB")]
PerSecond = Annotated[float, _unless_plain(units.parse_rate), _text_schema(units.RATE_PATTERN, "6/s")]
Share = Annotated[float, BeforeValidator(units.parse_share), _SHARE_SCHEMA]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveInt = Annotated[int, Field(ge=1)]
NonEmptyStr = Annotated[str, Field(min_length=1)]
TupleOf = Annotated[tuple[T, ...], Strict(False)]


def _parse_rates(value: Any, info: ValidationInfo) -> float | tuple[float, float]:
    match value:
        case [int() | float() as low, int() | float() as high] if info.context and info.context.get(PLAIN):
            return float(low), float(high)
        case int() | float() if info.context and info.context.get(PLAIN):
            return float(value)
    return units.parse_rates(value)


Rates = Annotated[
    float | tuple[float, float],
    PlainValidator(_parse_rates),
    PlainSerializer(lambda rates: rates),
    _text_schema(units.RATES_PATTERN, "1/s..6/s"),
]
TokenLengths = Annotated[
    distributions.TokenDistribution,
    PlainValidator(distributions.parse_distribution),
    PlainSerializer(lambda distribution: distribution.to_toml()),
    WithJsonSchema(_DISTRIBUTION_SCHEMA),
]
