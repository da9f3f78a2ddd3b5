"""What a run will cost, and whether the scenario's own limits allow it.

A limit that is hit cuts the run short, and a run that is cut short proves nothing: so one that is sure to be hit is
refused before anything is sent.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scenarios.arrivals import Forecast
from scenarios.schema import Limits

CHANCE_SD = 4.0
"""Arrivals are drawn: so many standard deviations above the mean still have to fit."""


@dataclass(frozen=True)
class Cost:
    """The bill with its canaries: means over the planned time. None where only the target knows."""

    requests: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    wall_s: float
    wall_s_max: float


@dataclass(frozen=True)
class Overdraft:
    """A limit that the plan will break."""

    name: str
    rule: str
    cure: str


def overdrawn(limits: Limits, cost: Cost, loads: Sequence[Forecast]) -> Iterator[Overdraft]:
    """Every limit that is too low for this plan."""
    shorter = "raise it, or make the trial shorter"
    if cost.requests is not None and limits.requests is not None:
        most = cost.requests + CHANCE_SD * math.sqrt(cost.requests)
        if most > limits.requests:
            rule = f"requests = {limits.requests}, and this plan sends about {cost.requests:.0f}, maybe {most:.0f}"
            yield Overdraft("requests", rule, shorter)
    if cost.prompt_tokens is not None and cost.output_tokens is not None and limits.tokens is not None:
        tokens = cost.prompt_tokens + cost.output_tokens
        if tokens > limits.tokens:
            rule = f"tokens = {limits.tokens}, and this plan asks for about {tokens:.0f}"
            yield Overdraft("tokens", rule, shorter)
    if limits.wall is not None and cost.wall_s > limits.wall:
        rule = f"wall = {limits.wall:g} s, and this plan takes about {cost.wall_s:.0f} s"
        yield Overdraft("wall", rule, shorter)
    rates = [load.rate_mean for load in loads if load.rate_mean is not None]
    if limits.rate is not None and sum(rates) > limits.rate:
        rule = f"rate = {limits.rate:g}/s, and the loads come at {sum(rates):.3g}/s"
        yield Overdraft("rate", rule, "raise it, or lower the rates of the loads")
