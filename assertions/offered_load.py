"""The load that open loops offer over a trial: does it have a trend, and which fluctuations can explain a latency.

Latency follows load. Where the load fluctuates, its rate and the square of it stand beside the line of a drift. That
removes a trend of the load only as far as the fluctuations show how latency follows: what is left of a smooth rise
would be taken for drift, and is called `hidden`. A closed loop sends less to a slower server, so it is no covariate.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assertions.context import JudgeContext
from assertions.intervals import Interval
from assertions.plan_view import PlanView
from assertions.planned_windows import load_intervals, phase_intervals
from assertions.rows import Floats
from assertions.trend import Cut, SubBlocks

FLUCTUATES = 2.0
"""Arrivals whose variance is so many times that of chance fluctuate."""
CERTAIN = 3.0
"""Standard errors of a change of the load that is taken for one."""


@dataclass(frozen=True)
class OfferedLoad:
    """The arrivals of open loops in each block. A constant load is changed by 0 and has no covariates."""

    covariates: Floats
    """[blocks, 2 or 0]: the rate as a share of its mean, less 1, and its square."""
    change: float = 0.0
    """The change from the start of the trial to its end, as a share of the mean."""
    hidden: float = 0.0
    """The part of the change that the covariates do not remove from a latency proportional to the load."""


def offered(context: JudgeContext, cut: Cut, blocks: SubBlocks) -> OfferedLoad:
    """The load that was offered in these blocks by all open loops but the probes."""
    requests = context.history.requests
    names = [load.id for load in context.plan.loads if not load.probe and load.rate_mean is not None]
    counts = cut.counts(requests.intended_ns[requests.load.among(*names) & requests.kind.among("load", None)])
    return of_counts(counts[blocks.at.astype(np.int64)], blocks.phase)


def planned(plan: PlanView) -> OfferedLoad:
    """The load that the plan offers over its trial. Only traces are known to change; other loads have their mean."""
    intervals = load_intervals(plan, phase_intervals(plan, ("trial",)) or [])
    cut = Cut.of(intervals, None, 0.0)
    counts = np.zeros(cut.count)
    edges = np.interp(np.arange(cut.count + 1) * cut.width_ns, cut.load_ns, cut.edges_ns)
    for load in plan.loads:
        known_s = len(load.arrival_counts.counts) if load.arrival_counts is not None else 0
        if load.arrival_counts is not None and not load.probe and known_s >= edges[-1]:
            pairs: list[Interval] = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
            counts += [load.arrival_counts.among([pair]) for pair in pairs]
        elif load.rate_mean is not None and not load.probe:
            counts += load.rate_mean * cut.width_ns
    return of_counts(counts, np.zeros(cut.count, np.int64))


def of_counts(counts: Floats, phase: NDArray[np.int64]) -> OfferedLoad:
    """The offered load of blocks with these arrivals and phases of the load, two arrays of shape [blocks]."""
    mean = float(counts.mean()) if len(counts) else 0.0
    if mean <= 0 or len(counts) < 3:
        return OfferedLoad(np.zeros((len(counts), 0)))
    rate = counts / mean - 1
    by_chance = 1 / mean
    phases = [(phase == each) * 1.0 for each in np.unique(phase)]
    part = (np.arange(len(counts)) + 0.5) / len(counts)
    columns = np.column_stack([part - part.mean(), *phases])
    sizes = np.linalg.lstsq(columns, rate, rcond=None)[0]
    free = max(1, len(counts) - columns.shape[1])
    left = float(np.square(rate - columns @ sizes).sum()) / free
    level = columns[:, 1:] @ sizes[1:]
    change, error = float(sizes[0]), float(np.sqrt(12 * max(left, by_chance) / len(counts)))
    fluctuates = float(np.square(rate - level).sum()) / free > FLUCTUATES * by_chance
    shown = max(0.0, 1 - by_chance / left) if fluctuates and left > 0 else 0.0
    hidden = abs(change) * (1 - shown) if abs(change) > CERTAIN * error else 0.0
    return OfferedLoad(np.column_stack([rate, rate**2] if fluctuates else [rate[:, None][:, :0]]), change, hidden)
