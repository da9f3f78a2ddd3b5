"""The latencies of a probe as a series of blocks, the probes that got no answer, and where a slow probe's time went.

A block holds enough probes for its quantile: 100 for a P99. Its value is the logarithm of that quantile, so that the
growth of a series is a change in proportion. Probes that overlap a fault window are left out.
"""

from dataclasses import dataclass

import numpy as np

from assertions import stats
from assertions.context import JudgeContext
from assertions.expression import Expression
from assertions.judges.growth import cut_of_trial, restarts_ns
from assertions.latency import gaps, latency_column, where_intervals
from assertions.plan_view import Check, PlannedLoad, PlanView
from assertions.rows import Floats, Mask
from assertions.trend import Cut, SubBlocks, quantile, sub_blocks
from assertions.windows import NS_PER_S

PROBES_MIN = 10
"""A block holds at least so many values, or as many as leave one beyond the quantile."""
GAPS_WIDTH_NS = 20 * NS_PER_S
"""Gaps between tokens are counted in windows of 10 s; a block has two at least."""


@dataclass(frozen=True)
class ProbeValues:
    """The values of a probe in the order of recording, arrays of shape [values]."""

    t_ns: Floats
    seconds: Floats
    weight: Floats
    kept: Mask
    """False where a value touches a fault window or is no answer."""

    def cut(self, context: JudgeContext, stat: Expression) -> Cut:
        """The trial in blocks that hold enough values each."""
        whole = cut_of_trial(context, 0.0)
        given = float(self.weight[whole.blocks_of(self.t_ns) >= 0].sum())
        span_ns = float(whole.load_ns[-1])
        return cut_of_trial(context, least_width_ns(stat, given / span_ns if span_ns else 0.0))

    def blocks(self, context: JudgeContext, cut: Cut, stat: Expression) -> SubBlocks:
        """The logarithm of the statistic in each block."""
        q = 1.0 if stat.stat == "max" else stat.quantile
        logs = np.log(np.where(self.kept, self.seconds, 1.0))
        value = quantile(q) if q is not None else lambda values, weights: float(
            np.log(np.average(np.exp(values), weights=weights))
        )  # fmt: skip
        return sub_blocks(cut, self.t_ns, logs, self.kept, restarts_ns(context), value, self.weight)

    def of_quarter(self, cut: Cut, stat: Expression, last: bool) -> float:
        """The statistic (s) of the first or the last quarter of the trial; NaN when it has no value."""
        block = cut.blocks_of(self.t_ns)
        here = self.kept & (block >= 0) & ((block >= 0.75 * cut.count) if last else (block < 0.25 * cut.count))
        if not here.any():
            return float("nan")
        if stat.stat == "mean":
            return float(np.average(self.seconds[here], weights=self.weight[here]))
        return quantile(1.0 if stat.stat == "max" else stat.quantile or 1.0)(self.seconds[here], self.weight[here])


def values_needed(stat: Expression) -> int:
    """The number of values that a block needs for its statistic."""
    return max(PROBES_MIN, round(1 / (1 - stat.quantile))) if stat.quantile else PROBES_MIN


def least_width_ns(stat: Expression, per_ns: float) -> float:
    """The least width (ns) of a block when `per_ns` values come in each nanosecond."""
    enough = values_needed(stat) / per_ns if per_ns > 0 else 0.0
    return max(enough, GAPS_WIDTH_NS) if stat.metric == "drift.itl" else enough


def probes(plan: PlanView, check: Check) -> list[PlannedLoad]:
    """The probe loads that a check selects."""
    return [
        load
        for load in plan.loads
        if load.probe and check.load in (None, load.id) and check.group in (None, load.group)
    ]


def probe_mask(context: JudgeContext, check: Check) -> Mask:
    """[arrivals]: the sent probes of a check that overlap no fault window."""
    requests = context.history.requests
    names = [load.id for load in probes(context.plan, check)]
    return requests.load.among(*names) & requests.sent & ~context.touched


def probe_values(context: JudgeContext, check: Check, stat: Expression) -> ProbeValues:
    """All values of the probes of a check in the run."""
    metric = stat.metric.removeprefix("drift.")
    if metric == "itl":
        intervals, _ = where_intervals(context, "outside")
        names = frozenset(load.id for load in probes(context.plan, check))
        parts = [gaps(context, names, intervals, out) for out in (True, False)]
        t_ns, seconds, weight = (
            np.concatenate([getattr(each, name) for each in parts]) for name in ("t_ns", "seconds", "weight")
        )
        return ProbeValues(t_ns, seconds, weight, (np.arange(len(t_ns)) < len(parts[0].t_ns)) & (seconds > 0))
    requests = context.history.requests
    ours = np.flatnonzero(requests.load.among(*(load.id for load in probes(context.plan, check))))
    seconds = latency_column(context, metric)[ours]
    kept = probe_mask(context, check)[ours] & (np.nan_to_num(seconds) > 0)
    return ProbeValues(requests.intended_ns[ours], seconds, np.ones(len(ours)), kept)


@dataclass(frozen=True)
class Unanswered:
    """Probes without a latency in the first and in the last half of the trial: (their number, all sent)."""

    first: tuple[int, int]
    last: tuple[int, int]

    @property
    def more(self) -> bool:
        """True when the last half has certainly more of them, so that its latencies may be those of the fast only."""
        return stats.fisher_more(*self.last, *self.first) <= stats.ALPHA

    @property
    def text(self) -> str:
        """The shares, or nothing when every probe was answered."""
        if not self.first[0] + self.last[0]:
            return ""
        shares = [f"{count} of {n}" for count, n in (self.first, self.last)]
        return f"; unanswered: {shares[0]} in the first half, {shares[1]} in the last"


def unanswered(context: JudgeContext, check: Check, metric: str, cut: Cut) -> Unanswered:
    """Count the probes that ended without a latency."""
    lost = np.isnan(latency_column(context, "e2e" if metric == "itl" else metric))
    block, mask = cut.blocks_of(context.history.requests.intended_ns), probe_mask(context, check)
    halves = [mask & (block >= 0) & ((block < cut.count / 2) == first) for first in (True, False)]
    first, last = ((int((half & lost).sum()), int(half.sum())) for half in halves)
    return Unanswered(first, last)


def where_slower(context: JudgeContext, check: Check, stat: Expression, cut: Cut) -> str:
    """The part of a slow probe's way that took most of its growth from the first quarter of the trial to the last.

    A slow probe is at or above the statistic of its quarter. The server's own stamps divide its way.
    """
    metric = stat.metric.removeprefix("drift.")
    requests, stamps = context.history.requests, context.history.served_stamps
    server = [stamps.get(name, (np.nan,) * 4) for name in requests.id]
    arrived, admitted, first, ended = np.array(server, np.float64).reshape(-1, 4).T
    way = {
        "ttft": (("on the way in", requests.intended_ns, arrived), ("queue", arrived, admitted),
                 ("prefill", admitted, first), ("on the way out", first, requests.first_ns)),
        "e2e": (("on the way in", requests.intended_ns, arrived), ("queue", arrived, admitted),
                ("prefill", admitted, first), ("decode", first, ended), ("on the way out", ended, requests.end_ns)),
    }.get(metric, (("decode", first, ended),
                   ("on the way out", ended - first, requests.last_ns - requests.first_ns)))  # fmt: skip
    column = latency_column(context, "e2e" if metric == "itl" else metric)
    block, mask = cut.blocks_of(requests.intended_ns), probe_mask(context, check) & ~np.isnan(column)
    means = []
    for late in (False, True):
        quarter = mask & (block >= 0) & ((block >= 0.75 * cut.count) if late else (block < 0.25 * cut.count))
        if not quarter.any():
            return "server"
        slow = quarter & (column >= np.quantile(column[quarter], stat.quantile or 0.0))
        means.append([_mean_s((end - start)[slow]) for _, start, end in way])
    grown = np.array(means[1]) - np.array(means[0])
    if np.isnan(grown).any() or grown.max() <= 0:
        return "server"
    most = int(np.argmax(grown))
    name = way[most][0]
    share = f"{grown[most] * 1e3:.3g} of {grown.sum() * 1e3:.3g} ms"
    return f"{'between client and server' if 'way' in name else f'server, {name}'} ({share})"


def _mean_s(times_ns: Floats) -> float:
    known = times_ns[~np.isnan(times_ns)]
    return float(known.mean()) / NS_PER_S if len(known) else float("nan")
