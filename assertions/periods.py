r"""Drift is fitted to one value for each whole period of the load; `leak` uses the periods to count what was planned.

    value   |  /\    /\    /\    /\        samples of one second are correlated: a line through them
            | /  \/\/  \/\/  \/\  \       calls 30-40 % of clean runs a drift (simulated)
            |-----|-----|-----|-----|      a period's value has no phase of the load left in it
               p0    p1    p2    p3        a line through them, with a t interval, is wrong in 1-2 %

Fault windows and quiesces are removed from the samples. A period that keeps less than half of its time is left out.
Fewer than 8 periods are not judged.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from assertions import stats
from assertions.context import JudgeContext, Missing
from assertions.formatting import duration
from assertions.intervals import length, within
from assertions.plan_view import PlanView
from assertions.planned_windows import phase_intervals, selected_intervals
from assertions.rows import Floats
from assertions.verdict import State
from assertions.windows import NS_PER_S, inside

PERIODS_MIN = 8
PERIOD_DEFAULT_S = 300.0  # for loads without a period; long compared with the correlation time of a server's samples
COVERAGE_MIN = 0.5
HOUR_NS = 3600 * NS_PER_S


@dataclass(frozen=True)
class PeriodValues:
    """One value for each period, in the order of time. `hours` is the mean time of the samples kept in each period."""

    hours: Floats
    values: Floats
    starts_ns: Floats
    width_s: float
    left_out: int

    @property
    def span_hours(self) -> float:
        """The time (hours) over which growth is reported: from the first period's middle to the last one's, plus
        one."""
        return float(self.hours[-1] - self.hours[0]) + self.width_s / 3600


@dataclass(frozen=True)
class Trend:
    """A change per hour with its confidence interval (one-sided 1 % at each end)."""

    per_hour: float
    low: float
    high: float
    theil_sen: float
    smallest_visible: float
    residual_sd: float
    periods: int

    def against(self, op: str, budget: float) -> State:
        """FAIL when the whole interval breaks the budget, PASS when the whole interval keeps it, else UNKNOWN."""
        low, high = (self.low, self.high) if op in ("<", "<=") else (-self.high, -self.low)
        budget = budget if op in ("<", "<=") else -budget
        strict = op in ("<", ">")
        if low > budget or (strict and low == budget and low == high and budget != 0):
            return State.FAIL
        # A series that never changed keeps any budget, also a budget of 0.
        return State.PASS if high < budget or (high == budget and (not strict or low == high == 0)) else State.UNKNOWN


def trend(periods: PeriodValues) -> Trend:
    fit = stats.fit_line(periods.hours, periods.values)
    visible = stats.smallest_visible(periods.hours, fit.residual_sd)
    slope = stats.theil_sen(periods.hours, periods.values)
    return Trend(fit.slope, fit.low, fit.high, slope, visible, fit.residual_sd, fit.points)


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


def period_values(
    context: JudgeContext, value_of: Callable[[float, float], tuple[float, float, float] | None]
) -> PeriodValues:
    """The values of the trial's periods. `value_of(start_ns, end_ns)` returns (hours, value, coverage) or None."""
    width_s = period_length_s(context.plan)
    width_ns = width_s * NS_PER_S
    kept, starts, left_out = [], [], 0
    for start_ns, end_ns in context.intervals("trial"):
        # A phase ends slightly before its planned end, when its last second is over: do not lose a period to that.
        for number in range(int((end_ns - start_ns) / width_ns + 0.01)):
            block_ns = start_ns + number * width_ns
            found = value_of(block_ns, block_ns + width_ns)
            if found is None or found[2] < COVERAGE_MIN:
                left_out += 1
                continue
            kept.append(found[:2])
            starts.append(block_ns)
    table = np.array(kept, dtype=np.float64).reshape(-1, 2)
    return PeriodValues(table[:, 0], table[:, 1], np.array(starts), width_s, left_out)


def quiet(context: JudgeContext, t_ns: Floats) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """A mask of the times (ns) that lie outside fault windows and quiesces."""
    intervals: list[tuple[float, float]] = [(window.arm_ns, window.end_ns) for window in context.windows]
    return ~inside(t_ns, intervals + context.intervals("quiesce"))


def risen_since(periods: PeriodValues) -> int:
    """The start (ns) of the first period after which no value returns to the mean of the earlier ones."""
    values = periods.values
    for number in range(1, len(values)):
        if (values[number:] > values[:number].mean()).all():
            return int(periods.starts_ns[number])
    return int(periods.starts_ns[-1])
