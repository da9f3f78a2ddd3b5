"""The scenario file, schema version 1, as frozen pydantic models.

`scenarios.read.read` makes a Scenario from TOML and reports all problems at once. The models check single values; rules
between keys are in `scenarios.rules`.
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
    """Fixed requests whose answers are known: different tokens show corruption."""

    every: PositiveSeconds = 5.0
    reference: Literal["auto", "exact", "self"] = "auto"
    """`exact` needs the model's weights, `self` compares with the target's baseline, `auto` chooses."""
    compared_min: Share = 0.9
    """The share of canaries that must have been compared."""


class Check(ScenarioTable):
    """A condition that must hold."""

    that: Annotated[str, AfterValidator(_that), Field(json_schema_extra={"examples": ["ttft.p99 < 800ms"]})]
    """"metric[.stat] op value"."""
    load: NonEmptyStr | None = None
    """Restricts the check to the requests of this load."""
    group: NonEmptyStr | None = None
    """Restricts the check to the requests of this group."""
    where: NonEmptyStr = "outside"
    """`outside` fault windows, `all` of the time, or the id of a fault for its windows."""
    level: Literal["required", "observe"] = "required"
    """`observe` is shown and never decides."""

    @model_validator(mode="before")
    @classmethod
    def _drop_parsed(cls, raw: Any, info: ValidationInfo) -> Any:
        """Ignore `parsed` of a plan, which follows from `that`."""
        if info.context and info.context.get(PLAIN) and isinstance(raw, dict):
            return {key: value for key, value in raw.items() if key != "parsed"}
        return raw

    @computed_field  # type: ignore[prop-decorator]
    @property
    def parsed(self) -> Condition:
        """The condition of `that`, with the value in the metric's own unit."""
        return expr.parse_condition(self.that)


class HangUp(ScenarioTable):
    """The most that the server may do for a client that has left: judge hang_ups."""

    tokens: NonNegativeInt = 4
    """Tokens that are generated after the server saw the hang-up. Only a target that keeps a journal shows them."""
    within: PositiveSeconds = 2.0
    """The longest time from the hang-up until the request has left batch and queue, outside fault windows."""


class Limits(ScenarioTable):
    """Limits of the run. All are required when the target is not on this machine."""

    requests: PositiveInt | None = None
    tokens: PositiveInt | None = None
    rate: PerSecond | None = None
    in_flight: PositiveInt | None = None
    wall: PositiveSeconds | None = None
    disk: ByteSize = 4 * 2**30


class Scenario(ScenarioTable):
    """One trial. `name` and `means` are the heading of every report."""

    schema_: Literal[1] = Field(alias="schema")
    """Version of this format."""
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=80)]
    """The name of the run directory and of the nightly series."""
    means: NonEmptyStr
    """The meaning of a FAIL of this scenario, in one sentence."""
    seed: NonNegativeInt = 0
    """The seed of all random draws of the run."""
    drive: Literal["live", "virtual"] = "live"
    """`virtual` runs the engine over a simulated device and clock."""
    target: Target = Target()
    phases: Phases
    load: Annotated[TupleOf[Load], Field(min_length=1)]
    canary: Canary = Canary()
    fault: TupleOf[Fault] = ()
    check: TupleOf[Check] = ()
    hang_up: HangUp = HangUp()
    limits: Limits = Limits()
    abort: TupleOf[Annotated[str, AfterValidator(_abort)]] = ()
    """Conditions "metric op value for duration" that end the run early."""

    @classmethod
    def from_plain(cls, dumped: object) -> Self:
        """The scenario from its `model_dump(mode="json")`, as in plan.json."""
        return cls.model_validate(dumped, context={PLAIN: True})

    @property
    def aborts(self) -> tuple[Abort, ...]:
        return tuple(expr.parse_abort(text) for text in self.abort)

    def load_named(self, load_id: str) -> Load:
        """The load with this id. Raises KeyError."""
        return {load.id: load for load in self.load}[load_id]
