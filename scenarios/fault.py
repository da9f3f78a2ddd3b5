"""Table `[[fault]]`: the action, its trigger and scope, and the effects that it may have."""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Discriminator, Field, PlainSerializer, PlainValidator, Tag, WithJsonSchema

from faults.spec import LIFETIME_BEYOND_FOR_S, Do, SpecError, parse_do
from scenarios.load import Identifier
from scenarios.phases import time_or_table
from scenarios.types import (
    ByteSize,
    NonEmptyStr,
    NonNegativeInt,
    PositiveInt,
    PositiveSeconds,
    ScenarioTable,
    Seconds,
    Share,
    TupleOf,
)
from scenarios.units import InvalidValue

Outcome = Literal[
    "ok",
    "http_error",
    "inband_error",
    "truncated",
    "no_finish_reason",
    "malformed",
    "timeout",
    "cancelled",
    "refused",
    "dropped",
    "unfinished",
]
_DO_SCHEMA: Final = WithJsonSchema({"type": "string", "examples": ["device.launch: hang 20s"]})
AFTER: Final = r"^[A-Za-z][A-Za-z0-9_-]*\.(fired|healed)$"


def _do(text: object) -> Do:
    if not isinstance(text, str):
        raise InvalidValue("a fault is a string", 'write it such as "device.launch: hang 20s"')
    try:
        return parse_do(text)
    except SpecError as error:
        rule, _, remedy = error.problems[0].removeprefix(f'do = "{text}": ').partition("; ")
        raise InvalidValue(rule, remedy) from None


def _probability(share: float) -> float:
    if share == 0:
        raise InvalidValue("a probability is above 0", "leave the fault out")
    return share


class When(ScenarioTable):
    """`at` (or `after`) arms; the fault opens at the next hit that matches. Hits count per fault and key, after
    arming, and only those that match the scope."""

    at: Seconds | None = None
    """Time from the start of the trial. Without `at` and `after`, the fault arms at the start."""
    after: Annotated[str, Field(pattern=AFTER)] | None = None
    """Another fault's "id.fired" or "id.healed"."""
    every: PositiveSeconds | None = None
    """Period after which the fault is armed again, until the trial ends."""
    for_: PositiveSeconds | None = Field(default=None, alias="for")
    """Duration from the first fire. Without it, the fault ends when `times` is used up."""
    skip: NonNegativeInt = 0
    """Number of matching hits that pass before the first fire."""
    times: PositiveInt = 1
    """Number of fires in each occurrence."""
    interval: PositiveInt = 1
    """After `skip`, every `interval`-th hit may fire."""
    probability: Annotated[Share, AfterValidator(_probability)] = 1.0
    """Probability that a hit fires."""
    space: ByteSize = 0
    """Bytes of crossings that pass before the first fire."""


class Scope(ScenarioTable):
    """Selects the crossings that count as hits. A key that is not set matches every crossing."""

    group: NonEmptyStr | None = None
    session: NonEmptyStr | None = None
    pool: NonEmptyStr | None = None
    phase: Literal["prefill", "decode"] | None = None
    graph: NonEmptyStr | None = None
    load: NonEmptyStr | None = None


class Completed(ScenarioTable):
    """Recovery counted in requests completed after the heal."""

    completed: PositiveInt


TimeOrCompleted = Annotated[
    Annotated[PositiveSeconds, Tag("<time>")] | Annotated[Completed, Tag("<work>")], Discriminator(time_or_table)
]


class Expect(ScenarioTable):
    """The effects that a fault may have. An outcome that no fault allows is a FAIL."""

    outcomes: Annotated[TupleOf[Outcome], Field(min_length=1)] = ("ok",)
    """Client-side outcomes that victims may have."""
    victims: Literal["hit", "scope", "all"] = "hit"
    """The requests that may be affected: the requests that were hit, all in the scope, or all."""
    marks: TupleOf[NonEmptyStr] = ()
    """Symptoms that the runtime must count."""
    recover: TimeOrCompleted = 30.0
    """Service is as in the baseline this long after the heal."""


def _ttl(data: dict[str, Any]) -> float:
    when = data.get("when")
    return (when.for_ or 0.0 if isinstance(when, When) else 0.0) + LIFETIME_BEYOND_FOR_S


class Fault(ScenarioTable):
    """One fault and the effects that it may have."""

    id: Identifier
    do: Annotated[Do, PlainValidator(_do), PlainSerializer(str), _DO_SCHEMA]
    """"point: action [argument]"; `seatrial faults` lists them."""
    place: Literal["before", "after", "in_flight"] = "before"
    """Relative to the work of the point."""
    when: When = When()
    scope: Scope = Scope()
    persist: bool = False
    """Stay armed over a restart of the server, and fail every matching crossing until healed."""
    fired_min: NonNegativeInt = 1
    """Fires that each occurrence must reach."""
    ttl: PositiveSeconds = Field(default_factory=_ttl)
    """Longest lifetime: the fault is healed at the latest this long after its first fire. Default: `for` + 60 s."""
    expect: Expect = Expect()
