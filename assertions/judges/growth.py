"""Parts that the judges of growth share: the cut of the trial, when too little is seen, and the texts about a shape."""

from collections.abc import Callable

import numpy as np

from assertions import periods, stats
from assertions.context import JudgeContext
from assertions.formatting import duration, seconds, since_start
from assertions.judges.alive import SERVER
from assertions.periods import PERIODS_MIN
from assertions.trend import Cut, Growth, SubBlocks
from assertions.trend.growth import BLOCKS_MIN
from assertions.verdict import Evidence
from assertions.windows import NS_PER_S


def visible_errors(modes: int) -> float:
    """Standard errors above a limit at which growth is found in nine runs of ten, by the line through that many modes.

    Simulated for white noise and 24 to 96 blocks: 0.89 to 0.93 of the runs.
    """
    return stats.t_quantile(1 - stats.ALPHA, modes - 1) + stats.t_quantile(stats.POWER, modes - 1)


def cut_of_trial(context: JudgeContext, least_ns: float) -> Cut:
    """The trial cut into blocks of at least `least_ns`, which are parts of the period of the load."""
    period_s = periods.load_period_s(context.plan)
    return Cut.of(context.intervals("trial"), None if period_s is None else period_s * NS_PER_S, least_ns)


def restarts_ns(context: JudgeContext) -> list[float]:
    """The times (ns) at which the server started again."""
    started = [each.t_ns for each in context.history.events if each.kind == "start" and each.proc.startswith(SERVER)]
    return [float(each) for each in started[1:]]


def too_little(context: JudgeContext, blocks: SubBlocks, samples: str = "samples") -> tuple[str, str] | None:
    """The reason why a trial shows too little of a series to judge it, and the cure; None when it shows enough."""
    period_s = periods.period_length_s(context.plan)
    usable = int(blocks.kept_ns / NS_PER_S / period_s + 0.01)
    if usable >= PERIODS_MIN and len(blocks.at) >= BLOCKS_MIN:
        return None
    because = f"{usable} whole periods of {duration(period_s)} were usable, {PERIODS_MIN} are needed"
    if usable >= PERIODS_MIN:
        because = f"the {samples} fill {len(blocks.at)} blocks of the trial, {BLOCKS_MIN} are needed"
    if context.cut_short:
        because += f"; {context.cut_short}"
    return because, f"{duration(max(1, PERIODS_MIN - usable) * period_s)} more of trial"


def shape_told(blocks: SubBlocks, found: Growth, reason: str, told: Callable[[float], str]) -> tuple[str, str] | None:
    """The shape that leaves a check undecided, and the cure; None when the reason is no shape.

    `told` writes a rise, which is given in the unit of the series.
    """
    span_s = blocks.span_ns / NS_PER_S
    longer = f"run longer: {duration(span_s)} more"
    if reason == "ended":
        kind, at = found.ended.shape
        by = told(risen(found))
        if kind == "warm":
            return f"levels off: {by}, two thirds of it within {seconds(at * span_s)}", longer
        what = "rose once" if kind == "step" else "grew and levelled off"
        return f"{what}: {by} by {since_start(blocks.began_ns(at))}", longer
    if reason == "wave":
        period = seconds(found.wave.shape.at * span_s)
        return f"comes and goes with a period of about {period}", "several such periods, or load with that period"
    if reason == "late":
        began = since_start(blocks.began_ns(found.late.shape.at))
        return f"growth began at {began} and is too short to be certain", longer
    return ("the trial keeps the limit, its last part does not", longer) if reason == "recent" else None


def risen(found: Growth) -> float:
    """The size of the rise that has ended, in the unit of the series."""
    return found.ended.size * (found.ended.shape.at if found.ended.shape.kind == "stop" else 1.0)


def risen_since(blocks: SubBlocks) -> int:
    """The start (ns) of the first block after which no value returns to the mean of the earlier ones."""
    values = blocks.values
    least = np.minimum.accumulate(values[::-1])[::-1]
    means = np.cumsum(values) / np.arange(1, len(values) + 1)
    later = np.flatnonzero(least[1:] > means[:-1])
    return int(blocks.start_ns[later[0] + 1 if len(later) else -1])


def evidence(blocks: SubBlocks, told: Callable[[float], str]) -> tuple[Evidence, ...]:
    """The values of the first, the middle and the last block."""
    return tuple(
        Evidence(
            int(blocks.start_ns[at]), None, f"from {since_start(blocks.start_ns[at])}: {told(float(blocks.values[at]))}"
        )
        for at in (0, len(blocks.at) // 2, -1)
    )
