"""drift: the same question takes as long at the end of the trial as at its start.

Judged on a probe stream (constant rate, constant size): under a changing load only it asks the same question twice.
Each whole period gives one value, its quantile or mean; the change is a line through their logarithms, told as a share
over the whole trial.
"""

import math

import numpy as np

from assertions import blocks, stats
from assertions.blocks import BLOCKS_MIN
from assertions.brief import Brief, Check, PlannedLoad
from assertions.case import Case, Judge, Missing
from assertions.expression import Expression
from assertions.latency import Values, gaps, latencies, spans_of
from assertions.verdict import Judged, Level, State
from assertions.windows import inside
from assertions.wording import between, duration, seconds

DEFAULT_LIMIT = 0.2


def judge(brief: Brief, load: str) -> Judge:
    """The default judge of one probe: its median time to first token, shown and never required."""
    parsed = Expression(f"drift.ttft.p50 < {DEFAULT_LIMIT:.0%}", "drift.ttft", "p50", "<", DEFAULT_LIMIT, "share")
    check = Check(parsed.text, load=load, level=Level.OBSERVE)
    made = check_judge(brief, check, parsed)
    return Judge(f"drift.ttft.p50 [{load}]", made.decide, made.needs, Level.OBSERVE, timing=True)


def check_judge(brief: Brief, check: Check, parsed: Expression) -> Judge:
    return Judge(
        check.name,
        lambda case: decide(case, check, parsed),
        lambda brief: needs(brief, check, parsed),
        level=check.level,
        timing=True,
        asked=True,
    )


def decide(case: Case, check: Check, parsed: Expression) -> Judged:
    name, metric = check.name, parsed.metric.removeprefix("drift.")
    floor = _floor(parsed)
    few = 0

    def value_of(start_ns: float, end_ns: float) -> tuple[float, float, float] | None:
        nonlocal few
        values, kept = _block(case, metric, check, start_ns, end_ns)
        if values.n < floor or values.seconds[0] <= 0:
            few += 1
            return None
        value = values.mean() if parsed.stat == "mean" else values.quantile(parsed.quantile or 1.0)
        return float(values.t_ns.mean()) / blocks.HOUR_NS, math.log(value), kept

    found = blocks.cut(case, value_of)
    if len(found.values) < BLOCKS_MIN:
        because = f"{len(found.values)} periods were usable, {BLOCKS_MIN} are needed"
        if few:
            because += f"; {few} held fewer than {floor} probes"
        cure = "a longer trial or a faster probe"
        return Judged(name, State.UNKNOWN, because, because=case.cut_short or because, to_decide=cure)
    trend = blocks.trend(found)
    span = found.span_hours
    budget = math.log1p(parsed.value) / span
    state = trend.against(parsed.op, budget)
    share, low, high = (math.expm1(each * span) for each in (trend.per_hour, trend.low, trend.high))
    visible = math.expm1(trend.smallest_visible * span)
    first, last = (math.exp(value) for value in (found.values[0], found.values[-1]))
    since = blocks.risen_since(found) if state is State.FAIL else None
    text = f"{metric}.{parsed.stat} of the probe changed {share:+.1%} over {trend.blocks} periods"
    return Judged(
        name,
        state,
        f"{text} (first {seconds(first)}, last {seconds(last)})",
        limit=f"{parsed.op} {parsed.value:.3g} as a share over the trial, in this run",
        observed=f"{share:+.1%}",
        interval=between(low, high, "share"),
        smallest_visible=f"{visible:.1%} above the limit",
        since_ns=since,
        fault=case.fault_before(since) if since is not None else None,
        because="the interval of the change spans the limit" if state is State.UNKNOWN else None,
        to_decide="more periods, or a wider limit" if state is State.UNKNOWN else None,
        figures={"share": share, "low": low, "high": high, "smallest_visible": visible, "blocks": trend.blocks},
    )


def _block(case: Case, metric: str, check: Check, start_ns: float, end_ns: float) -> tuple[Values, float]:
    """The probe's values that began in one block outside fault windows, and the share of its time that was kept."""
    requests = case.history.requests
    grid = np.linspace(start_ns, end_ns, 200, endpoint=False)
    kept = float(blocks.quiet(case, grid).mean())
    if metric == "itl":
        spans, out = spans_of(case, "outside")
        values = gaps(case, frozenset(_probes(case.brief, check)), spans, out)
        here = inside(values.t_ns, [(start_ns, end_ns - 1)])
        return Values(values.seconds[here], values.weight[here], values.t_ns[here]), kept
    mask = requests.load.among(*_probes(case.brief, check)) & ~case.touched
    mask &= (requests.intended_ns >= start_ns) & (requests.intended_ns < end_ns)
    return latencies(case, metric, mask), kept


def _probes(brief: Brief, check: Check) -> list[str]:
    return [load.id for load in brief.loads if load.probe and _meant(load, check)]


def _meant(load: PlannedLoad, check: Check) -> bool:
    return (check.load is None or load.id == check.load) and (check.group is None or load.group == check.group)


def _floor(parsed: Expression) -> int:
    """Values in a block below which its statistic is not to be trusted."""
    return stats.binomial_floor(parsed.quantile) if parsed.quantile else 10


def needs(brief: Brief, check: Check, parsed: Expression) -> Missing | None:
    probes = [load for load in brief.loads if load.probe and _meant(load, check)]
    if not probes:
        return Missing("drift is judged on a probe stream, and there is none here", "add a load with probe = true")
    if missing := blocks.too_few_periods(brief):
        return missing
    width_s, floor = blocks.block_width_s(brief), _floor(parsed)
    rate = sum(load.rate_mean or 0.0 for load in probes)
    if parsed.metric == "drift.itl":
        return None
    if rate * width_s >= floor:
        return blocks.too_few_periods(brief, floor / rate)
    because = (
        f"{parsed.stat} needs {floor} probes in each period of {duration(width_s)}, {rate * width_s:.0f} are planned"
    )
    return Missing(because, f"probe at {math.ceil(floor / width_s * 100) / 100:g}/s")
