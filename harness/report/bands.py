"""Bands of the timeline: phases, faults with their fires, canary answers."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass

from assertions.judges.tokens import TWIN
from harness.report.figures import S_PER_NS
from harness.report.source import RunFiles

TICKS_MAX = 600  # fires and canary dots in a lane; more would share one pixel


@dataclass(frozen=True)
class PhaseBand:
    name: str
    n: int
    start_s: float
    end_s: float
    ended_by: str | None


@dataclass(frozen=True)
class FaultBand:
    """One fault occurrence. `first_s` is None when it never fired, `heal_s` when no heal was seen."""

    fault: str
    n: int
    arm_s: float
    first_s: float | None
    heal_s: float | None
    healed_by: str | None


@dataclass(frozen=True)
class CanaryDot:
    t_s: float
    state: str
    request: str


def phase_bands(source: RunFiles) -> tuple[PhaseBand, ...]:
    """The phases. One that never ended is drawn to the last recorded time."""
    return tuple(
        PhaseBand(
            phase.name,
            phase.n,
            phase.start_ns * S_PER_NS,
            (source.history.end_ns if phase.end_ns is None else phase.end_ns) * S_PER_NS,
            phase.ended_by,
        )
        for phase in source.history.phases
    )


def fault_bands(source: RunFiles) -> tuple[FaultBand, ...]:
    return tuple(
        FaultBand(
            fault.id,
            fault.n,
            fault.arm_ns * S_PER_NS,
            _seconds(fault.first_ns),
            _seconds(fault.heal_ns),
            fault.healed_by,
        )
        for fault in sorted(source.history.faults, key=lambda fault: fault.arm_ns or 0)
        if fault.arm_ns is not None
    )


def fires(source: RunFiles) -> tuple[tuple[str, tuple[float, ...]], ...]:
    ticks: dict[str, list[float]] = defaultdict(list)
    for fire in source.history.fires:
        ticks[fire.fault].append(fire.t_ns * S_PER_NS)
    return tuple(
        (fault, tuple(times[index] for index in _thinned([False] * len(times)))) for fault, times in ticks.items()
    )


def canaries(source: RunFiles) -> tuple[CanaryDot, ...]:
    requests = source.history.requests
    dots = []
    for canary in source.history.canaries:
        row = None if canary.reference == TWIN else requests.row_of.get(canary.request)
        if row is not None:
            ended_ns = float(requests.end_ns[row])
            t_ns = requests.start_of(row) if math.isnan(ended_ns) else ended_ns
            dots.append(CanaryDot(t_ns * S_PER_NS, canary.state or "unknown", canary.request))
    dots.sort(key=lambda dot: dot.t_s)
    shown = _thinned([dot.state != "equal" for dot in dots])
    return tuple(dots[index] for index in shown)


def compared(source: RunFiles) -> tuple[tuple[str, str, int], ...]:
    """Counts of all comparisons as ("canary" or "bystander", state, number), also of those that are not drawn."""
    counts = Counter(
        ("bystander" if canary.reference == TWIN else "canary", canary.state or "unknown")
        for canary in source.history.canaries
    )
    return tuple((kind, state, number) for (kind, state), number in sorted(counts.items(), reverse=True))


def _thinned(keep: list[bool]) -> list[int]:
    """The indices of about TICKS_MAX evenly spaced entries, and of all entries to keep."""
    step = max(1, -(-len(keep) // TICKS_MAX))
    return [index for index, kept in enumerate(keep) if kept or index % step == 0]


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns * S_PER_NS
