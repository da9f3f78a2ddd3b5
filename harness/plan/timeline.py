"""The planned phases in their fixed order, each with its planned and its longest duration (s).

warmup | baseline | trial 0 | quiesce 0 | trial 1 | ... | recovery | restart | fresh | drain
"""

import heapq
from dataclasses import dataclass

from scenarios.arrivals import forecast
from scenarios.phases import Work
from scenarios.schema import Scenario
from scenarios.traces import replay

IDLE_MAX_S = 60.0
"""The longest wait (s) for the last replies before a restart."""
START_S = 10.0
"""The time (s) that a restart is planned with."""
LOADED = ("warmup", "baseline", "trial", "recovery", "restart", "fresh")
"""The phases in which the load runs."""


@dataclass(frozen=True, slots=True)
class PlannedPhase:
    """`planned_s` is the given time, or the estimate for a phase that ends after a number of replies. `max_s` is the
    longest time it may take."""

    name: str
    n: int
    planned_s: float
    max_s: float
    completed: int | None = None
    """The phase ends after this many good replies. None: it ends after `planned_s`."""


def timeline(scenario: Scenario) -> tuple[PlannedPhase, ...]:
    """All phases of a run."""
    phases = scenario.phases
    warmup_s = reached_s(scenario, phases.warmup.completed, 0.0, phases.warmup.max)
    found = [
        PlannedPhase("warmup", 0, warmup_s, phases.warmup.max, phases.warmup.completed),
        PlannedPhase("baseline", 0, phases.baseline, phases.baseline),
        *_trial(scenario, warmup_s + phases.baseline),
        PlannedPhase("recovery", 0, phases.recovery, phases.recovery),
        *_fresh(scenario, warmup_s),
        PlannedPhase("drain", 0, min(2.0, phases.drain_max), phases.drain_max),
    ]
    return tuple(found)


def trial_s(planned: tuple[PlannedPhase, ...]) -> float:
    """Seconds from the start of the trial to the start of recovery, pauses included. `at` and `every` refer to it."""
    return sum(phase.planned_s for phase in planned if phase.name in ("trial", "quiesce"))


def reached_s(scenario: Scenario, completed: int, since_s: float, max_s: float) -> float:
    """Seconds from `since_s` until all loads together have sent `completed` requests, at most `max_s`.

    Arrivals of traces are counted. Other loads count with the mean rate of their first two minutes. A closed loop
    counts as 0, because its rate depends on the target.
    """
    drawn = [load for load in scenario.load if load.arrivals != "trace"]
    rate = sum(forecast(load, (0.0, 120.0)).rate_mean or 0.0 for load in drawn)
    traces = [replay(load) for load in scenario.load if load.arrivals == "trace"]
    arrived = 0
    for t_s in heapq.merge(*((row.t_s for row in rows) for rows in traces)):
        after_s = t_s - since_s
        if after_s >= max_s or arrived + rate * after_s >= completed:
            break
        if after_s >= 0:
            arrived += 1
            if arrived + rate * after_s >= completed:
                return after_s
    return min(max_s, max(0.0, completed - arrived) / rate) if rate else max_s


def _fresh(scenario: Scenario, warmup_s: float) -> list[PlannedPhase]:
    """The restart of the target with a warm-up like the first, and the time that is compared."""
    phases = scenario.phases
    if not phases.fresh:
        return []
    longest_s = IDLE_MAX_S + scenario.target.ready_max + phases.warmup.max
    return [
        PlannedPhase("restart", 0, START_S + warmup_s, longest_s, phases.warmup.completed),
        PlannedPhase("fresh", 0, phases.fresh, phases.fresh),
    ]


def _trial(scenario: Scenario, since_s: float) -> list[PlannedPhase]:
    trial, quiesce = scenario.phases.trial, scenario.phases.quiesce
    if isinstance(trial, Work):
        estimate_s = reached_s(scenario, trial.completed, since_s, trial.max)
        return [PlannedPhase("trial", 0, estimate_s, trial.max, trial.completed)]
    if quiesce is None:
        return [PlannedPhase("trial", 0, trial, trial)]
    found, left_s, n = [], trial, 0
    while left_s > 0:
        piece_s = min(quiesce.every, left_s)
        found.append(PlannedPhase("trial", n, piece_s, piece_s))
        left_s -= piece_s
        if left_s > 0:
            found.append(PlannedPhase("quiesce", n, min(2.0, quiesce.max), quiesce.max))
        n += 1
    return found
