"""The planned phases, in their fixed order, and how long each may take.

warmup | baseline | trial 0 | quiesce 0 | trial 1 | ... | recovery | drain
"""

import heapq
from dataclasses import dataclass

from scenarios.arrivals import forecast
from scenarios.phases import Work
from scenarios.schema import Scenario
from scenarios.traces import replay


@dataclass(frozen=True, slots=True)
class PlannedPhase:
    """`planned_s`: a time, or the guess for one counted in work; `max_s`: the longest it may take."""

    name: str
    n: int
    planned_s: float
    max_s: float
    completed: int | None = None
    """Ends after so many good replies; None: after `planned_s`."""


def timeline(scenario: Scenario) -> tuple[PlannedPhase, ...]:
    """All phases of a live run."""
    phases = scenario.phases
    warmup_s = reached_s(scenario, phases.warmup.completed, 0.0, phases.warmup.max)
    found = [
        PlannedPhase("warmup", 0, warmup_s, phases.warmup.max, phases.warmup.completed),
        PlannedPhase("baseline", 0, phases.baseline, phases.baseline),
        *_trial(scenario, warmup_s + phases.baseline),
        PlannedPhase("recovery", 0, phases.recovery, phases.recovery),
        PlannedPhase("drain", 0, min(2.0, phases.drain_max), phases.drain_max),
    ]
    return tuple(found)


def trial_s(planned: tuple[PlannedPhase, ...]) -> float:
    """From the start of the trial to the start of recovery, pauses included: what `at` and `every` count in."""
    return sum(phase.planned_s for phase in planned if phase.name in ("trial", "quiesce"))


def reached_s(scenario: Scenario, completed: int, since_s: float, max_s: float) -> float:
    """Seconds from `since_s` until all loads together have brought so many requests, `max_s` at most.

    Traces are counted, other loads have the rate of their first minutes; a closed loop, of which only the target knows
    how fast it is, brings nothing.
    """
    drawn = [load for load in scenario.load if load.arrivals != "trace"]
    rate = sum(forecast(load, (0.0, 120.0)).rate_mean or 0.0 for load in drawn)
    traces = [replay(load) for load in scenario.load if load.arrivals == "trace"]
    come = 0
    for t_s in heapq.merge(*((row.t_s for row in rows) for rows in traces)):
        after_s = t_s - since_s
        if after_s >= max_s or come + rate * after_s >= completed:
            break
        if after_s >= 0:
            come += 1
            if come + rate * after_s >= completed:
                return after_s
    return min(max_s, max(0.0, completed - come) / rate) if rate else max_s


def _trial(scenario: Scenario, since_s: float) -> list[PlannedPhase]:
    trial, quiesce = scenario.phases.trial, scenario.phases.quiesce
    if isinstance(trial, Work):
        guess_s = reached_s(scenario, trial.completed, since_s, trial.max)
        return [PlannedPhase("trial", 0, guess_s, trial.max, trial.completed)]
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
