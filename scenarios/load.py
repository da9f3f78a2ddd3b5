"""`[[load]]`: one stream of requests, with arrivals, sizes and misbehaving clients."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from faults.spec import DEFAULT_GROUP
from scenarios.distributions import Constant, TokenDistribution, Uniform
from scenarios.types import (
    NonEmptyStr,
    PositiveInt,
    PositiveSeconds,
    Rates,
    ScenarioTable,
    Share,
    TokenLengths,
    TupleOf,
)
from scenarios.units import DURATION, InvalidValue

Arrivals = Literal["poisson", "constant", "ramp", "burst", "daily", "trace", "closed"]
CANCEL_AT: Final = rf"^(queued|prefill|token [1-9]\d*|after {DURATION})$"
PROBE_PROMPT: Final = Constant(64)
PROBE_OUTPUT: Final = Constant(16)


def _cancel_at(text: str) -> str:
    if re.match(CANCEL_AT, text) is None:
        rule = 'a client cancels at "queued", "prefill", "token N" or "after TIME"'
        raise InvalidValue(rule, 'write it such as "token 3" or "after 200ms"')
    return text


Identifier = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=64)]
Factor = Annotated[float, Field(gt=0, le=1e6)]


class Cancel(ScenarioTable):
    """Clients that close the connection: their share of requests, and the stage at which they do."""

    share: Share
    at: Annotated[str, AfterValidator(_cancel_at), Field(json_schema_extra={"pattern": CANCEL_AT})] = "queued"
    """`queued` is before the first byte, `prefill` after the headers, `token N` after the Nth token,
    `after TIME` that long after the request is sent, whatever its state."""


class Trace(ScenarioTable):
    """The replay of a recorded trace: Azure LLM inference CSV or Mooncake JSONL."""

    file: NonEmptyStr
    """The file. It is looked up beside the scenario, in the current directory, and in each folder of SEATRIAL_DATA."""
    time_scale: Factor = 1.0
    """A factor on all times: 2.0 takes twice as long, at half the rate."""
    token_scale: Factor = 1.0
    """A factor on all token counts; at least 1 token remains."""
    loop: bool = False
    """Starts the trace again after its last row."""
    gap_max: PositiveSeconds | None = None
    """The longest gap between rows after scaling; longer gaps are shortened to it."""


def _distribution_default(
    data: dict[str, Any], probe: TokenDistribution, trace: TokenDistribution | None, other: TokenDistribution
) -> TokenDistribution | None:
    if data.get("arrivals") == "trace":
        return trace
    return probe if data.get("probe") else other


class Load(ScenarioTable):
    """One stream of requests."""

    id: Identifier
    probe: bool = False
    """Makes this load a probe: a stream of constant rate and sizes on which drift is judged."""
    group: NonEmptyStr = DEFAULT_GROUP
    """The tenant it belongs to. Without `target.groups` every load is in the group "default"."""
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """A load of higher priority goes first, as in `target.groups`; only a strictly higher one preempts. It is sent as
    vLLM's `priority`, where lower goes first. Nothing is sent for 0."""
    arrivals: Arrivals = Field(default_factory=lambda data: "constant" if data.get("probe") else "poisson")
    """The arrival process. `ramp`, `burst` and `daily` are Poisson arrivals with a changing rate; `closed` has users
    who wait for their reply. The default is poisson, and constant for a probe."""
    rate: Rates | None = None
    """One rate for constant and poisson, "low/s..high/s" for ramp, burst and daily. For closed it is the rate of each
    user while it is not waiting: 1/rate is the mean think time, and without a rate users do not pause."""
    users: PositiveInt | None = None
    """The number of users of a closed load."""
    period: PositiveSeconds | None = None
    """The time from low to high of a ramp, or one whole cycle of burst and daily."""
    trace: Trace | None = None
    """The trace of arrivals = "trace"."""
    prompt_tokens: TokenLengths | None = Field(
        default_factory=lambda data: _distribution_default(data, PROBE_PROMPT, None, Uniform(20, 400))
    )
    """A number, [low, high] or a lognormal distribution. With a trace, [low, high] clamps the trace's numbers."""
    output_tokens: TokenLengths | None = Field(
        default_factory=lambda data: _distribution_default(data, PROBE_OUTPUT, None, Uniform(4, 64))
    )
    """A number, [low, high] or a lognormal distribution. With a trace, [low, high] clamps the trace's numbers."""
    shared_prefix: Share = 0.0
    """The share of requests whose first half is one of a few prefixes of this load."""
    stream: Share = 1.0
    """The share of requests that ask for a stream."""
    cancel: TupleOf[Cancel] = ()
    """Clients that close the connection; the shares add up to at most 1."""
    malformed: Share = 0.0
    """The share of requests that are malformed on purpose and must be refused."""
    timeout: PositiveSeconds = 60.0
    """The time after which the client gives up."""
    in_flight_max: PositiveInt = 256
    """The largest number of open requests of this load. A further arrival is dropped and never blocks."""
