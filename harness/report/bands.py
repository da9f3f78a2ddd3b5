"""Bands of the timeline: fires of faults, canary answers."""

import math
from collections import Counter, defaultdict

from assertions.judges.tokens import TWIN
from harness.report.figures import S_PER_NS
from harness.report.source import RunFiles

TICKS_MAX = 600  # fires and canary dots in a lane; more would share one pixel


def fires(source: RunFiles) -> tuple[tuple[str, tuple[float, ...]], ...]:
    ticks: dict[str, list[float]] = defaultdict(list)
    for fire in source.history.fires:
        ticks[fire.fault].append(fire.t_ns * S_PER_NS)
    return tuple(
        (fault, tuple(times[index] for index in _thinned([False] * len(times)))) for fault, times in ticks.items()
    )


def canaries(source: RunFiles) -> tuple[tuple[float, str], ...]:
    """The time (s) and the state of each canary's answer, in order of time; about TICKS_MAX, and all unequal ones."""
    requests = source.history.requests
    dots = []
    for canary in source.history.canaries:
        row = None if canary.reference == TWIN else requests.row_of.get(canary.request)
        if row is not None:
            ended_ns = float(requests.end_ns[row])
            t_ns = requests.start_of(row) if math.isnan(ended_ns) else ended_ns
            dots.append((t_ns * S_PER_NS, canary.state or "unknown"))
    dots.sort()
    return tuple(dots[index] for index in _thinned([state != "equal" for _, state in dots]))


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
