"""The periods of the load, in which the judges of growth count how much of a trial they need and have.

A trial of fewer than 8 whole periods is not judged. Fault windows and quiesces do not count, and a period that keeps
less than half of its time is left out.
"""

import math

import numpy as np

from assertions.context import JudgeContext, Missing
from assertions.formatting import duration
from assertions.intervals import length, within
from assertions.plan_view import PlanView
from assertions.planned_windows import phase_intervals, selected_intervals
from assertions.rows import Floats
from assertions.windows import NS_PER_S, inside

PERIODS_MIN = 8
PERIOD_DEFAULT_S = 300.0  # for loads without a period; long compared with the correlation time of a server's samples
COVERAGE_MIN = 0.5
HOUR_NS = 3600 * NS_PER_S


def load_period_s(plan: PlanView) -> float | None:
    """The common period of all loads: their least common multiple, in whole seconds. None when no load has a period."""
    periods = [max(1, round(load.period_s)) for load in plan.loads if load.period_s]
    return float(math.lcm(*periods)) if periods else None


def period_length_s(plan: PlanView) -> float:
    """The period in which trends are counted: that of the loads, or the time between quiesces, or 300 s."""
    return load_period_s(plan) or plan.quiesce_every_s or PERIOD_DEFAULT_S


def too_few_periods(plan: PlanView, quiet_min_s: float = 0.0) -> Missing | None:
    """A reason when the plan has fewer than 8 usable whole periods of trial; None when it has enough.

    `quiet_min_s` is the time outside fault windows that a judge needs of each period, where that exceeds one half.
    """
    width_s, trial_s = period_length_s(plan), plan.trial_s
    if trial_s is None:
        return Missing("the trial is given in completed work, so its periods cannot be counted", 'give trial = "8h"')
    usable, whole = count_periods(plan, quiet_min_s)
    if usable >= PERIODS_MIN:
        return None
    more = duration((PERIODS_MIN - usable) * width_s - trial_s % width_s)
    if usable == whole:
        return Missing(f"{PERIODS_MIN} periods needed, {usable} planned", f"add {more}")
    because = f"{PERIODS_MIN} periods needed, {usable} of {whole} planned lie well outside fault windows"
    return Missing(because, f"add {more} without a fault, or shorten recover")


def count_periods(plan: PlanView, quiet_min_s: float = 0.0) -> tuple[int, int]:
    """Count whole periods of the planned trial: (those with enough time outside fault windows, all)."""
    width_s = period_length_s(plan)
    starts = [
        start_s + number * width_s
        for start_s, end_s in phase_intervals(plan, ("trial",)) or []
        for number in range(int((end_s - start_s) / width_s + 1e-9))
    ]
    quiet = selected_intervals(plan, "outside", ("trial",))
    least_s = max(COVERAGE_MIN * width_s, quiet_min_s) - 1e-9
    return sum(length(within([(start, start + width_s)], quiet)) >= least_s for start in starts), len(starts)


def quiet(context: JudgeContext, t_ns: Floats) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """A mask of the times (ns) that lie outside fault windows and quiesces."""
    intervals: list[tuple[float, float]] = [(window.arm_ns, window.end_ns) for window in context.windows]
    return ~inside(t_ns, intervals + context.intervals("quiesce"))
