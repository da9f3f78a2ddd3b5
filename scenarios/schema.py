"""The scenario file, schema 1: one frozen record for everything a trial needs to know.

`scenarios.read.read` makes one from TOML and reports all problems at once. Rules that look at more than one key are
in `scenarios.rules`; the models here check single values.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, computed_field, model_validator

from scenarios import expr
from scenarios.expr import Abort, Condition
from scenarios.fault import Fault
from scenarios.load import Load
from scenarios.phases import Phases
from scenarios.target import Target
from scenarios.types import (
    PLAIN,
    ByteSize,
    NonEmptyStr,
    NonNegativeInt,
    PerSecond,
    PositiveInt,
    PositiveSeconds,
    ScenarioTable,
    Share,
    TupleOf,
)


def _that(text: str) -> str:
    expr.parse_condition(text)
    return " ".join(text.split())


def _abort(text: str) -> str:
    expr.parse_abort(text)
    return " ".join(text.split())


class Canary(ScenarioTable):
    """A fixed request whose answer is known: wrong tokens show corruption."""

    every: PositiveSeconds = 5.0
    reference: Literal["auto", "exact", "self"] = "auto"
    """`exact` where we have the weights, `self`: agreement with its own baseline; `auto` picks."""
    compared_min: Share = 0.9
    """Share of canaries that must have been compared."""


class Check(ScenarioTable):
    """One thing that must hold."""

    that: Annotated[str, AfterValidator(_that), Field(json_schema_extra={"examples": ["ttft.p99 < 800ms"]})]
    """"metric[.stat] op value"."""
    load: NonEmptyStr | None = None
    """Only this load's requests."""
    group: NonEmptyStr | None = None
    """Only this group's requests."""
    where: NonEmptyStr = "outside"
    """`outside` fault windows, `all`, or the id of a fault: inside its windows."""
    level: Literal["required", "observe"] = "required"
    """`observe` is shown and never decides."""

    @model_validator(mode="before")
    @classmethod
    def _drop_parsed(cls, raw: Any, info: ValidationInfo) -> Any:
        """A plan carries `parsed` for its readers; it follows from `that`."""
        if info.context and info.context.get(PLAIN) and isinstance(raw, dict):
            return {key: value for key, value in raw.items() if key != "parsed"}
        return raw

    @computed_field  # type: ignore[prop-decorator]
    @property
    def parsed(self) -> Condition:
        """`that` in parts, with the value in the metric's own unit."""
        return expr.parse_condition(self.that)


class Limits(ScenarioTable):
    """What the run may spend. All of them are required when the target is not on this machine."""

    requests: PositiveInt | None = None
    tokens: PositiveInt | None = None
    rate: PerSecond | None = None
    in_flight: PositiveInt | None = None
    wall: PositiveSeconds | None = None
    disk: ByteSize = 4 * 2**30


class Scenario(ScenarioTable):
    """One trial. `name` and `means` head every report: `means` is what a FAIL would mean."""

    schema_: Literal[1] = Field(alias="schema")
    """Version of this format."""
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=80)]
    """Names the run directory and the nightly series."""
    means: NonEmptyStr
    """What a FAIL of this scenario would mean, in one sentence."""
    seed: NonNegativeInt = 0
    """Every draw of the run follows from it."""
    drive: Literal["live", "virtual"] = "live"
    """`virtual`: the same engine over a simulated device and clock."""
    target: Target = Target()
    phases: Phases
    load: Annotated[TupleOf[Load], Field(min_length=1)]
    canary: Canary = Canary()
    fault: TupleOf[Fault] = ()
    check: TupleOf[Check] = ()
    limits: Limits = Limits()
    abort: TupleOf[Annotated[str, AfterValidator(_abort)]] = ()
    """"metric op value for duration": ends the run early."""

    @classmethod
    def from_plain(cls, dumped: object) -> Self:
        """The scenario that `model_dump(mode="json")` wrote, for those who read `plan.json`."""
        return cls.model_validate(dumped, context={PLAIN: True})

    @property
    def aborts(self) -> tuple[Abort, ...]:
        return tuple(expr.parse_abort(text) for text in self.abort)

    def load_named(self, load_id: str) -> Load:
        """KeyError when there is none of this id."""
        return {load.id: load for load in self.load}[load_id]
