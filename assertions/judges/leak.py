"""Judge leak: memory, descriptors, threads and KV blocks of the server do not grow from period to period.

A check gives a budget per hour. Without one, each series is observed against a growth of 4 of its own SD over the
trial: at that budget 99 % of clean 8 h runs pass, and under smaller budgets most clean runs end UNKNOWN (simulated).
"""

import numpy as np

from assertions import periods, stats
from assertions.context import Judge, JudgeContext, Missing
from assertions.expression import Expression
from assertions.formatting import amount, between, duration, since_start
from assertions.periods import PERIODS_MIN, PeriodValues, Trend
from assertions.plan_view import Check, PlanView
from assertions.rows import Samples
from assertions.verdict import Evidence, Judged, Level, State

# metric -> (series that are summed, dimension, capability, True when judged on period minima, the level when idle)
SERIES: dict[str, tuple[tuple[str, ...], str, str, bool]] = {
    # RssAnon and swap: RSS alone hides a leak that is swapped out
    "rss_anon": (("server.rss_anon", "server.swap"), "bytes_per_hour", "pid", False),
    "fds": (("server.fds",), "count_per_hour", "pid", False),
    "threads": (("server.threads",), "count_per_hour", "pid", False),
    "kv_live": (("kv.live_blocks",), "count_per_hour", "kv_live", True),
}
OWN_SD_BUDGET = 4.0


def judge(plan: PlanView, series: str) -> Judge:
    """The default judge of one series: it observes and is never required."""
    return Judge(
        f"leak.{series}",
        lambda context: decide(context, series, None, f"leak.{series}"),
        lambda plan: needs(plan, series),
        level=Level.OBSERVE,
        note=lambda plan: _note(plan),
    )


def check_judge(plan: PlanView, check: Check, parsed: Expression) -> Judge:
    series = parsed.metric.removeprefix("leak.")
    return Judge(
        check.name,
        lambda context: decide(context, series, parsed, check.name),
        lambda plan: needs(plan, series),
        level=check.level,
        asked=True,
        note=lambda plan: _note(plan),
    )


def decide(context: JudgeContext, series: str, parsed: Expression | None, name: str) -> Judged:
    samples, why = _samples(context, series)
    if samples is None:
        return Judged(name, State.UNKNOWN, why, because=why, to_decide="a sensor for it")
    found = periods.series_period_values(context, samples, lowest=SERIES[series][3])
    dimension = SERIES[series][1]
    if len(found.values) < PERIODS_MIN:
        because = (
            f"{len(found.values)} whole periods of {duration(found.width_s)} were usable, {PERIODS_MIN} are needed"
        )
        if context.cut_short:
            because += f"; {context.cut_short}"
        more = duration((PERIODS_MIN - len(found.values)) * found.width_s)
        return Judged(name, State.UNKNOWN, because, because=because, to_decide=f"{more} more of trial")
    trend = periods.trend(found)
    op, budget = (parsed.op, parsed.value) if parsed else ("<", _own_budget(context, samples, found, trend))
    return _judged(context, name, found, trend, op, budget, dimension, parsed is None)


def _judged(
    context: JudgeContext,
    name: str,
    found: PeriodValues,
    trend: Trend,
    op: str,
    budget: float,
    dimension: str,
    own: bool,
) -> Judged:
    state = trend.against(op, budget)
    limit = f"growth {op} {amount(budget, dimension)}" + (f" ({OWN_SD_BUDGET:g} SD of its own)" if own else "")
    observed = f"{amount(trend.per_hour, dimension)} (Theil-Sen {amount(trend.theil_sen, dimension)})"
    text = {
        State.FAIL: f"grows {observed}, {limit} was asked",
        State.PASS: f"grows {observed} over {trend.periods} periods",
        State.UNKNOWN: f"grows {observed}, but the interval spans the limit",
    }[state]
    since = periods.risen_since(found) if state is State.FAIL else None
    evidence = [
        Evidence(int(start), None, f"period from {since_start(start)}: {value:.6g}")
        for start, value in zip(found.starts_ns, found.values, strict=True)
    ]
    more = stats.smallest_visible(found.hours, trend.residual_sd)
    return Judged(
        name,
        state,
        text,
        limit=limit,
        observed=observed,
        interval=between(trend.low, trend.high, dimension),
        smallest_visible=f"{amount(more, dimension)} above the limit",
        since_ns=since,
        fault=context.fault_before(since) if since is not None else None,
        owner="server" if state is State.FAIL else None,
        evidence=(evidence[0], evidence[len(evidence) // 2], evidence[-1]) if state is not State.PASS else (),
        because="the interval of the growth spans the limit" if state is State.UNKNOWN else None,
        to_decide=f"more periods, or a limit of {amount(trend.high, dimension)}" if state is State.UNKNOWN else None,
        figures={
            "per_hour": trend.per_hour,
            "low": trend.low,
            "high": trend.high,
            "theil_sen": trend.theil_sen,
            "smallest_visible": more,
            "blocks": trend.periods,
            "blocks_left_out": found.left_out,
        },
    )


def _own_budget(context: JudgeContext, samples: Samples, found: PeriodValues, trend: Trend) -> float:
    """The default budget per hour: 4 SD of the series' samples about their trend, over the length of the trial."""
    keep = periods.quiet(context, samples.t_ns) & (samples.t_ns >= found.starts_ns[0])
    hours = samples.t_ns[keep] / periods.HOUR_NS
    residual = samples.value[keep] - np.polyval([trend.per_hour, 0.0], hours)
    return OWN_SD_BUDGET * float(residual.std()) / found.span_hours


def _samples(context: JudgeContext, series: str) -> tuple[Samples | None, str]:
    """The summed series, or None and the reason."""
    main, *added = SERIES[series][0]
    samples = context.history.samples(main)
    if samples is None or not len(samples.value):
        why = f" ({samples.absent})" if samples is not None and samples.absent else ""
        return None, f"no samples of {main}{why}"
    for name in added:
        other = context.history.samples(name)
        if other is not None and len(other.value):
            extra = np.interp(samples.t_ns, other.t_ns, other.value)
            samples = Samples(samples.name, samples.t_ns, samples.value + extra, samples.period_ns, None)
    return samples, ""


def needs(plan: PlanView, series: str) -> Missing | None:
    _, _, capability, _ = SERIES[series]
    if plan.drive == "virtual" and capability == "pid":
        return Missing("a virtual run has no server process", 'set drive = "live"')
    if capability not in plan.capabilities:
        cure = "give target.pid" if capability == "pid" else "give target.metrics with a gauge of live KV blocks"
        return Missing(f"the target has no {capability}", cure)
    return periods.too_few_periods(plan)


def _note(plan: PlanView) -> str | None:
    number, _ = periods.count_periods(plan)
    if number < PERIODS_MIN:
        return None
    sd = stats.smallest_decidable_sd(number)
    return f"smallest decidable budget: {sd:.2g} SD of the period values, as growth over the {number} periods"
