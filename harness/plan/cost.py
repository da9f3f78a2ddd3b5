"""The expected cost of a run, checked against the scenario's limits.

A run that reaches a limit ends early and proves nothing. A plan that is sure to reach a limit is therefore refused
before any request is sent.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scenarios.arrivals import Forecast
from scenarios.schema import Limits

CHANCE_SD = 4.0
"""Arrivals are random: the mean plus this many standard deviations must fit into limits.requests."""


@dataclass(frozen=True)
class Cost:
    """Expected totals over the planned time, canaries included. None: only the target determines the number."""

    requests: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    wall_s: float
    wall_s_max: float


def exceeded_limits(limits: Limits, cost: Cost, loads: Sequence[Forecast]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the broken rule and the remedy of every limit that is too low for this plan."""
    shorter = "raise it, or make the trial shorter"
    if cost.requests is not None and limits.requests is not None:
        most = cost.requests + CHANCE_SD * math.sqrt(cost.requests)
        if most > limits.requests:
            rule = f"requests = {limits.requests}, and this plan sends about {cost.requests:.0f} (at most {most:.0f})"
            yield "requests", rule, shorter
    if cost.prompt_tokens is not None and cost.output_tokens is not None and limits.tokens is not None:
        tokens = cost.prompt_tokens + cost.output_tokens
        if tokens > limits.tokens:
            rule = f"tokens = {limits.tokens}, and this plan needs about {tokens:.0f}"
            yield "tokens", rule, shorter
    if limits.wall is not None and cost.wall_s > limits.wall:
        rule = f"wall = {limits.wall:g} s, and this plan takes about {cost.wall_s:.0f} s"
        yield "wall", rule, shorter
    rates = [load.rate_mean for load in loads if load.rate_mean is not None]
    if limits.rate is not None and sum(rates) > limits.rate:
        rule = f"rate = {limits.rate:g}/s, and the loads together send {sum(rates):.3g}/s"
        yield "rate", rule, "raise it, or lower the rates of the loads"
