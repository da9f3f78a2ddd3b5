"""`[[load]]`: one stream of requests, when they come, how large they are, and how clients misbehave."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

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
from scenarios.units import InvalidValue

Arrivals = Literal["poisson", "constant", "ramp", "burst", "daily", "trace", "closed"]
CANCEL_AT: Final = r"^(queued|prefill|token [1-9]\d*)$"
PROBE_PROMPT: Final = Constant(64)
PROBE_OUTPUT: Final = Constant(16)


def _cancel_at(text: str) -> str:
    if re.match(CANCEL_AT, text) is None:
        raise InvalidValue('a client cancels at "queued", "prefill" or "token N"', 'write it such as "token 3"')
    return text


Identifier = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=64)]
Factor = Annotated[float, Field(gt=0, le=1e6)]


class Cancel(ScenarioTable):
    """A share of the requests whose client goes away, and when it does."""

    share: Share
    at: Annotated[str, AfterValidator(_cancel_at), Field(json_schema_extra={"pattern": CANCEL_AT})] = "queued"
    """`queued`: before the first byte; `prefill`: after the headers; `token N`: after the Nth token."""


class Trace(ScenarioTable):
    """Replay of a recorded trace: Azure LLM inference CSV or Mooncake JSONL."""

    file: NonEmptyStr
    """Looked for beside the scenario, then in the current directory, then in each folder of SEATRIAL_DATA."""
    time_scale: Factor = 1.0
    """Multiplies all times: 2.0 takes twice as long, at half the rate."""
    token_scale: Factor = 1.0
    """Multiplies all token counts (at least 1 token stays)."""
    loop: bool = False
    """Start again after the last row."""
    gap_max: PositiveSeconds | None = None
    """Longer silences are cut to this, after scaling."""


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
    """A small stream of constant rate and size, on which drift is judged."""
    group: NonEmptyStr | None = None
    """The tenant it belongs to."""
    arrivals: Arrivals = Field(default_factory=lambda data: "constant" if data.get("probe") else "poisson")
    """When requests come. ramp, burst and daily are Poisson arrivals under a changing rate; `closed` is users who wait
    for their reply. Default: poisson, for a probe constant."""
    rate: Rates | None = None
    """constant, poisson: one rate; ramp, burst, daily: "low/s..high/s"; closed: each user's rate while it is not
    waiting (1/rate is the mean time to think; none: no pause)."""
    users: PositiveInt | None = None
    """closed only: how many users."""
    period: PositiveSeconds | None = None
    """ramp: time from low to high; burst, daily: one whole cycle."""
    trace: Trace | None = None
    """The recording of arrivals = "trace"."""
    prompt_tokens: TokenLengths | None = Field(
        default_factory=lambda data: _distribution_default(data, PROBE_PROMPT, None, Uniform(20, 400))
    )
    """A number, [low, high] or a law; with a trace, [low, high] clamps what the trace says."""
    output_tokens: TokenLengths | None = Field(
        default_factory=lambda data: _distribution_default(data, PROBE_OUTPUT, None, Uniform(4, 64))
    )
    """A number, [low, high] or a law; with a trace, [low, high] clamps what the trace says."""
    shared_prefix: Share = 0.0
    """Share of requests whose first half is one of a few prefixes common to the load."""
    stream: Share = 1.0
    """Share of requests that ask for a stream."""
    cancel: TupleOf[Cancel] = ()
    """Clients that go away; the shares add up to at most 1."""
    malformed: Share = 0.0
    """Share of requests that are broken on purpose and must be refused."""
    timeout: PositiveSeconds = 60.0
    """The client gives up after this."""
    in_flight_max: PositiveInt = 256
    """Open requests of this load; an arrival beyond it is counted as dropped and never blocks."""
