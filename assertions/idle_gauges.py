"""Gauges of a foreign target, read in the idle periods of a run: quiesces and the drain."""

from dataclasses import dataclass

import numpy as np

from assertions.context import JudgeContext
from assertions.rows import Samples

IDLE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class IdlePeriod:
    """A time in which no request was sent to the target."""

    name: str
    n: int
    start_ns: float
    end_ns: float


@dataclass(frozen=True)
class GaugeReading:
    value: float
    t_ns: int


@dataclass(frozen=True)
class StuckGauge:
    """A gauge that did not return to its idle level."""

    name: str
    idle: float
    after_ns: int
    """The last time (ns) at which the gauge was at its idle level; 0 when it never was."""
    t_ns: int
    text: str


def idle_periods(context: JudgeContext) -> list[IdlePeriod]:
    """The drain, and each quiesce in which the target became idle."""
    return [
        IdlePeriod(phase.name, phase.n, phase.start_ns, np.inf if phase.name == "drain" else phase.end_ns or np.inf)
        for phase in context.history.phases
        if phase.name == "drain" or (phase.name == "quiesce" and phase.ended_by == "done")
    ]


def reading_at(samples: Samples, rest: IdlePeriod) -> GaugeReading | None:
    """The last sample of an idle period, so that a target that notices late has had its time."""
    inside = np.flatnonzero((samples.t_ns >= rest.start_ns) & (samples.t_ns <= rest.end_ns))
    return GaugeReading(float(samples.value[inside[-1]]), int(samples.t_ns[inside[-1]])) if len(inside) else None


def stuck_gauges(name: str, idle: float, levels: list[tuple[IdlePeriod, GaugeReading]]) -> list[StuckGauge]:
    """The readings after which the gauge never returned to idle. A gauge that was only late is not stuck."""
    back = [number for number, (_, level) in enumerate(levels) if level.value <= idle + IDLE_TOLERANCE]
    first = back[-1] + 1 if back else 0
    after_ns = levels[first - 1][1].t_ns if first else 0
    kept = []
    for rest, level in levels[first:]:
        where = "after the drain" if rest.name == "drain" else f"at quiesce {rest.n}"
        kept.append(
            StuckGauge(name, idle, after_ns, level.t_ns, f"{name} is {level.value:g} {where}, idle is {idle:g}")
        )
    return kept


def idle_level(context: JudgeContext, samples: Samples) -> float:
    """The gauge's value before the first request; 0 when it was not sampled then."""
    requests = context.history.requests
    first_ns = np.nanmin(requests.sent_ns) if requests.sent.any() else np.inf
    before = samples.value[samples.t_ns < first_ns]
    return float(before[-1]) if len(before) else 0.0
