r"""Trends are fitted to one value for each whole period of the load.

    value   |  /\    /\    /\    /\        samples of one second are correlated: a line through them
            | /  \/\/  \/\/  \/\/  \       calls 30-40 % of clean runs a leak (simulated)
            |-----|-----|-----|-----|      a period's mean has no phase of the load left in it
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
from assertions.rows import Floats, Samples
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


def period_length_s(plan: PlanView) -> float:
    """The common period of all loads: their least common multiple, in whole seconds."""
    periods = [round(load.period_s) for load in plan.loads if load.period_s]
    if periods:
        return float(math.lcm(*(max(1, period) for period in periods)))
    return plan.quiesce_every_s or PERIOD_DEFAULT_S


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


def series_period_values(context: JudgeContext, series: Samples, lowest: bool = False) -> PeriodValues:
    """The mean of a sampled series in each period, or with `lowest` its minimum, which is the level when idle."""
    keep = quiet(context, series.t_ns)
    t_ns, values = series.t_ns[keep], series.value[keep]
    period_ns = series.period_ns or (float(np.median(np.diff(series.t_ns))) if len(series.t_ns) > 1 else NS_PER_S)

    def value_of(start_ns: float, end_ns: float) -> tuple[float, float, float] | None:
        first, last = np.searchsorted(t_ns, (start_ns, end_ns))
        if last <= first:
            return None
        block = values[first:last]
        value = float(block.min() if lowest else block.mean())
        coverage = (last - first) * period_ns / (end_ns - start_ns)
        return float(t_ns[first:last].mean()) / HOUR_NS, value, coverage

    return period_values(context, value_of)


def risen_since(periods: PeriodValues) -> int:
    """The start (ns) of the first period after which no value returns to the mean of the earlier ones."""
    values = periods.values
    for number in range(1, len(values)):
        if (values[number:] > values[:number].mean()).all():
            return int(periods.starts_ns[number])
    return int(periods.starts_ns[-1])
