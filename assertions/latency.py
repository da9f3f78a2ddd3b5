"""Latencies of a run as columns, measured from the intended time, so that a late generator cannot hide a slow server.

A request that timed out counts with the time until its end; otherwise the slowest requests would leave the sample.
Gaps between tokens (itl) come from the histogram, whose buckets are less than 0.1 % wide.
"""

from dataclasses import dataclass

import numpy as np

from assertions.context import MEASURED, JudgeContext
from assertions.plan_view import Check, PlanView
from assertions.rows import Floats, Mask
from assertions.windows import NS_PER_S, inside, touched


@dataclass(frozen=True)
class Values:
    """Sorted values (s) with their weights and the times (ns) at which they began; three arrays of shape [n]."""

    seconds: Floats
    weight: Floats
    t_ns: Floats

    @property
    def n(self) -> int:
        return int(self.weight.sum())

    def over(self, limit_s: float, strict: bool) -> int:
        """The number of values above the limit; with `strict` also those at the limit."""
        late = self.seconds >= limit_s if strict else self.seconds > limit_s
        return int(self.weight[late].sum())

    def quantile(self, q: float) -> float:
        """The smallest value such that at least a share `q` of all values lies at or below it."""
        cumulative = np.cumsum(self.weight)
        return float(self.seconds[np.searchsorted(cumulative, q * cumulative[-1] - 1e-9)])

    def mean(self) -> float:
        return float(np.average(self.seconds, weights=self.weight))

    def ranks(self, ranks: tuple[float, float]) -> tuple[float, float]:
        """The values at two 1-based ranks. A rank outside 1..n gives an infinite value."""
        cumulative = np.cumsum(self.weight)
        low, high = ranks
        found = [float(self.seconds[np.searchsorted(cumulative, r)]) if 1 <= r <= self.n else np.inf for r in ranks]
        return (-np.inf if low < 1 else found[0]), (np.inf if high > self.n else found[1])


def latencies(context: JudgeContext, metric: str, mask: Mask) -> Values:
    """The ttft, e2e or tpot of the requests in the mask that ended ok or by a timeout."""
    values = latency_column(context, metric)
    keep = mask & ~np.isnan(values)
    return _sorted(values[keep], np.ones(int(keep.sum())), context.history.requests.intended_ns[keep])


def latency_column(context: JudgeContext, metric: str) -> Floats:
    """[arrivals]: the ttft, e2e or tpot (s) of each request; NaN where it ended neither ok nor by a timeout."""
    requests = context.history.requests
    timeout = requests.outcome.among("timeout")
    start, end = requests.intended_ns, requests.end_ns
    if metric == "tpot":
        more = requests.output_tokens - 1
        values = np.where(more > 0, (requests.last_ns - requests.first_ns) / np.where(more > 0, more, 1), np.nan)
        timeout = np.zeros_like(timeout)
    else:
        first = np.where(np.isnan(requests.first_ns) & timeout, end, requests.first_ns)
        values = (end if metric == "e2e" else first) - start
    return np.where(requests.ok | timeout, values / NS_PER_S, np.nan)


def gaps(
    context: JudgeContext, loads: frozenset[str] | None, intervals: list[tuple[float, float]], out: bool
) -> Values:
    """Gaps between tokens from the histogram windows in the measured phases.

    `out` selects windows that touch none of the intervals, otherwise windows that touch one of them.
    """
    hist = context.history.histogram("itl")
    end = hist.t_ns + hist.width_ns
    keep = (
        inside(hist.t_ns, context.intervals(*MEASURED))
        if context.history.phases
        else np.ones(len(hist.t_ns), dtype=bool)
    )
    if loads is not None:
        keep &= hist.load.among(*loads)
    touching = np.zeros(len(keep), dtype=bool)
    for start_ns, end_ns in intervals:
        touching |= (hist.t_ns <= end_ns) & (end >= start_ns)
    keep &= ~touching if out else touching
    # The row holds the bucket's lower edge in ns; its middle is within 0.05 % of every value in it.
    middle = hist.bucket[keep] * 1.0005
    return _sorted(middle / NS_PER_S, hist.n[keep], hist.t_ns[keep])


def _sorted(seconds: Floats, weight: Floats, t_ns: Floats) -> Values:
    order = np.argsort(seconds, kind="stable")
    return Values(seconds[order], weight[order], t_ns[order])


def chosen_loads(plan: PlanView, check: Check) -> frozenset[str] | None:
    """The ids of the loads that a check names; None for all loads."""
    if check.load is not None:
        return frozenset({check.load})
    if check.group is not None:
        return frozenset(load.id for load in plan.loads if load.group == check.group)
    return None


def chosen(context: JudgeContext, check: Check) -> Mask:
    """A mask of the measured requests that a check selects by load, group and `where`."""
    requests = context.history.requests
    mask = context.measured.copy()
    if check.load is not None:
        mask &= requests.load.among(check.load)
    if check.group is not None:
        mask &= requests.group.among(check.group)
    match check.where:
        case "all":
            return mask
        case "outside":
            return mask & ~context.touched
    return mask & touched(requests, [window for window in context.windows if window.row.id == check.where])


def where_intervals(context: JudgeContext, where: str) -> tuple[list[tuple[float, float]], bool]:
    """The fault windows that a `where` names, and True when it means the time outside of them."""
    intervals: list[tuple[float, float]] = [
        (w.arm_ns, w.end_ns) for w in context.windows if where in ("outside", "all", w.row.id)
    ]
    return ([], True) if where == "all" else (intervals, where == "outside")
