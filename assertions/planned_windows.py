"""Predicts from a plan when its faults will show, and in which of its time a check will count requests.

    0        warmup ends          trial begins                               recovery       load ends
    |-----------|-----baseline------|-----[=== oom ====]----[====== hang ======]---|-----------|
                                          ^ at         ^ healed + recover
    where = "outside"  =============================    =====                   =================

The windows are those of `assertions.windows` at planned times. The prediction assumes that every request crosses the
fault's point once, and that the fault then lasts as long as its argument, its `for` or its `ttl` says.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assertions.arrival_counts import seconds_until
from assertions.intervals import Interval, length, within, without
from assertions.plan_view import PlannedFault, PlannedLoad, PlanView
from assertions.windows import RECOVER_DEFAULT_S

LIFE_S = 1.0  # a request in flight when a fault is armed is touched too


@dataclass(frozen=True)
class PlannedWindow:
    """The predicted window of one fault occurrence, in seconds since the load began.

    It heals between `heals_s` and `healed_s`; recovery takes `margin_s` more.
    """

    fault: str
    arm_s: float
    heals_s: float
    healed_s: float
    margin_s: float

    @property
    def least(self) -> Interval:
        return self.arm_s, self.heals_s + self.margin_s

    @property
    def most(self) -> Interval:
        return self.arm_s - LIFE_S, self.healed_s + self.margin_s


def selected_intervals(plan: PlanView, where: str, phases: tuple[str, ...]) -> list[Interval]:
    """The intervals of these phases that certainly belong to a check's `where`."""
    time = phase_intervals(plan, phases) or []
    if where == "all":
        return time
    faults = planned_windows(plan)
    if where == "outside":
        return without(time, [fault.most for fault in faults])
    return within(time, [fault.least for fault in faults if fault.fault == where])


def phase_intervals(plan: PlanView, names: Iterable[str]) -> list[Interval] | None:
    """The (start, end) of the planned phases with these names, in seconds since the load began; None when unknown."""
    found, start_s = [], 0.0
    for phase in plan.phases:
        planned_s = _trial_by_work_s(plan, start_s) if phase.planned_s is None else phase.planned_s
        if planned_s is None:
            return None
        if phase.name in names:
            found.append((start_s, start_s + planned_s))
        start_s += planned_s
    return found


def load_intervals(plan: PlanView, intervals: Iterable[Interval]) -> list[Interval]:
    """Convert intervals to load time, which stands still during a quiesce. No interval may overlap a quiesce."""
    pauses = phase_intervals(plan, ("quiesce",)) or []

    def paused_s(until_s: float) -> float:
        return length((start, end) for start, end in pauses if end <= until_s)

    return [(start - paused_s(start), end - paused_s(start)) for start, end in intervals]


def planned_windows(plan: PlanView) -> list[PlannedWindow]:
    """Predict the window of every occurrence that will be armed. Each ends with the trial at the latest.

    The result is empty when the plan does not say how long the trial lasts.
    """
    trial = phase_intervals(plan, ("trial", "quiesce"))
    if not trial:
        return []
    start_s, end_s = trial[0][0], trial[-1][1]
    placed: list[PlannedWindow] = []
    waiting = list(plan.faults)
    while waiting:
        begins = [(fault, _begin(fault, placed, start_s)) for fault in waiting]
        placed += [_occurrence(plan, fault, begin, end_s) for fault, begin in begins if begin is not None]
        later = [fault for fault, begin in begins if begin is None]
        if len(later) == len(waiting):
            break  # they wait for each other, or for a fault that is not planned: they will never be armed
        waiting = later
    return [each for each in placed if each.arm_s < end_s]


def _begin(fault: PlannedFault, placed: list[PlannedWindow], start_s: float) -> Interval | None:
    """The earliest and latest time of arming; None while the fault that it follows has no predicted window."""
    if not fault.after:
        at_s = start_s + (fault.at_s or 0.0)
        return at_s, at_s
    leader, _, what = fault.after.partition(".")
    first = min((each for each in placed if each.fault == leader), key=lambda each: each.arm_s, default=None)
    if first is None:
        return None
    return (first.arm_s if what == "fired" else first.heals_s), first.healed_s


def _occurrence(plan: PlanView, fault: PlannedFault, begin: Interval, trial_end_s: float) -> PlannedWindow:
    trigger, expect = fault.trigger, fault.expect
    longest_s = min(each for each in (trigger.for_s, trigger.ttl_s, math.inf) if each is not None)
    loads, since_s = _in_scope(plan, fault), load_intervals(plan, [begin])[0][1]
    first_s = _time_of((trigger.skip + 1) / trigger.probability, loads, since_s)
    rest_s = _time_of((trigger.times - 1) * trigger.interval / trigger.probability, loads, since_s + first_s)
    rest_s += trigger.times * trigger.hold_s
    # Each started server arms a persistent fault again: it waits for its hits again and then lasts as long again.
    lives = 1 + (_restarts(plan) if trigger.persist else 0)
    heals_s = begin[0] + min(trigger.hold_s, longest_s)
    healed_s = begin[1] + lives * (first_s + min(rest_s, longest_s))
    margin_s = RECOVER_DEFAULT_S if expect.recover_s is None else expect.recover_s
    if expect.recover_completed is not None:
        margin_s = _time_of(expect.recover_completed, plan.loads, since_s + min(healed_s, trial_end_s) - begin[1])
    return PlannedWindow(fault.id, begin[0], min(heals_s, trial_end_s), min(healed_s, trial_end_s), margin_s)


def _restarts(plan: PlanView) -> int:
    """The number of times that the planned faults may end the server."""
    return sum(fault.trigger.times for fault in plan.faults if fault.kills_server)


def _in_scope(plan: PlanView, fault: PlannedFault) -> list[PlannedLoad]:
    load, group = fault.scope.get("load"), fault.scope.get("group")
    return [each for each in plan.loads if load in (None, each.id) and group in (None, each.group)]


def _time_of(count: float, loads: Sequence[PlannedLoad], since_s: float) -> float:
    """Seconds of load time from `since_s` until `count` requests have come: traces are counted, other loads have their
    mean rate."""
    rate = sum(load.rate_mean or 0.0 for load in loads if load.arrival_counts is None)
    return seconds_until(
        [load.arrival_counts for load in loads if load.arrival_counts is not None], rate, since_s, count
    )


def _trial_by_work_s(plan: PlanView, start_s: float) -> float | None:
    """The expected length (s) of a trial that is given in completed requests and begins at `start_s`."""
    if plan.trial_completed is None or not plan.loads or any(load.rate_mean is None for load in plan.loads):
        return None
    return _time_of(plan.trial_completed, plan.loads, start_s)
