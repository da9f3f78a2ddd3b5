"""Judge drift: a request of a fixed kind takes as long at the end of the trial as at its start.

It is judged on a probe load, whose rate and sizes are constant while other loads change. Each whole period gives one
value, a quantile or a mean. The change is the slope of a line through their logarithms, as a share over the whole
trial.
"""

import math

import numpy as np

from assertions import periods, stats
from assertions.context import Judge, JudgeContext, Missing
from assertions.expression import Expression
from assertions.formatting import between, duration, seconds
from assertions.intervals import length
from assertions.latency import Values, gaps, latencies, where_intervals
from assertions.periods import PERIODS_MIN
from assertions.plan_view import Check, PlannedLoad, PlanView
from assertions.planned_windows import phase_intervals, selected_intervals
from assertions.verdict import Judged, Level, State
from assertions.windows import inside

DEFAULT_LIMIT = 0.2
LOG_SD = 0.5
"""SD of the logarithm of a latency that the plan tells its sight for; the run's own is in the verdict's interval."""
LOG_SD_LEAST = 0.1
"""The steadiest latency on which a check may count: it is refused when its limit cannot be judged even then."""
UNSEEN_MAX = 2.0
"""The smallest visible change may lie beyond the limit by so many times the limit."""


def judge(plan: PlanView, load: str) -> Judge:
    """The default judge of one probe: it observes the median time to first token and is never required."""
    parsed = Expression(f"drift.ttft.p50 < {DEFAULT_LIMIT:.0%}", "drift.ttft", "p50", "<", DEFAULT_LIMIT, "share")
    check = Check(parsed.text, load=load, level=Level.OBSERVE)
    made = check_judge(plan, check, parsed)
    return Judge(f"drift.ttft.p50 [{load}]", made.decide, made.needs, Level.OBSERVE, timing=True)


def check_judge(plan: PlanView, check: Check, parsed: Expression) -> Judge:
    return Judge(
        check.name,
        lambda context: decide(context, check, parsed),
        lambda plan: needs(plan, check, parsed),
        level=check.level,
        timing=True,
        asked=True,
        note=lambda plan: _note(plan, check, parsed),
    )


def decide(context: JudgeContext, check: Check, parsed: Expression) -> Judged:
    name, metric = check.name, parsed.metric.removeprefix("drift.")
    floor = _floor(parsed)
    few = 0

    def value_of(start_ns: float, end_ns: float) -> tuple[float, float, float] | None:
        nonlocal few
        values, kept = _block(context, metric, check, start_ns, end_ns)
        if values.n < floor or values.seconds[0] <= 0:
            few += 1
            return None
        value = values.mean() if parsed.stat == "mean" else values.quantile(parsed.quantile or 1.0)
        return float(values.t_ns.mean()) / periods.HOUR_NS, math.log(value), kept

    found = periods.period_values(context, value_of)
    if len(found.values) < PERIODS_MIN:
        because = f"{len(found.values)} periods were usable, {PERIODS_MIN} are needed"
        if few:
            because += f"; {few} held fewer than {floor} probes"
        cure = "a longer trial or a faster probe"
        return Judged(name, State.UNKNOWN, because, because=context.cut_short or because, to_decide=cure)
    trend = periods.trend(found)
    span = found.span_hours
    budget = math.log1p(parsed.value) / span
    state = trend.against(parsed.op, budget)
    share, low, high = (math.expm1(each * span) for each in (trend.per_hour, trend.low, trend.high))
    visible = math.expm1(trend.smallest_visible * span)
    first, last = (math.exp(value) for value in (found.values[0], found.values[-1]))
    since = periods.risen_since(found) if state is State.FAIL else None
    text = f"{metric}.{parsed.stat} of the probe changed {share:+.1%} over {trend.periods} periods"
    return Judged(
        name,
        state,
        f"{text} (first {seconds(first)}, last {seconds(last)})",
        limit=f"{parsed.op} {parsed.value:.3g} as a share over the trial, in this run",
        observed=f"{share:+.1%}",
        interval=between(low, high, "share"),
        smallest_visible=f"{visible:.1%} above the limit",
        since_ns=since,
        fault=context.fault_before(since) if since is not None else None,
        because="the interval of the change spans the limit" if state is State.UNKNOWN else None,
        to_decide="more periods, or a wider limit" if state is State.UNKNOWN else None,
        figures={"share": share, "low": low, "high": high, "smallest_visible": visible, "blocks": trend.periods},
    )


def _block(context: JudgeContext, metric: str, check: Check, start_ns: float, end_ns: float) -> tuple[Values, float]:
    """The probe's values that began in one period outside fault windows, and the share of the period that was kept."""
    requests = context.history.requests
    grid = np.linspace(start_ns, end_ns, 200, endpoint=False)
    kept = float(periods.quiet(context, grid).mean())
    if metric == "itl":
        intervals, out = where_intervals(context, "outside")
        values = gaps(context, frozenset(_probes(context.plan, check)), intervals, out)
        here = inside(values.t_ns, [(start_ns, end_ns - 1)])
        return Values(values.seconds[here], values.weight[here], values.t_ns[here]), kept
    mask = requests.load.among(*_probes(context.plan, check)) & ~context.touched
    mask &= (requests.intended_ns >= start_ns) & (requests.intended_ns < end_ns)
    return latencies(context, metric, mask), kept


def _probes(plan: PlanView, check: Check) -> list[str]:
    return [load.id for load in plan.loads if load.probe and _selected(load, check)]


def _selected(load: PlannedLoad, check: Check) -> bool:
    return (check.load is None or load.id == check.load) and (check.group is None or load.group == check.group)


def _floor(parsed: Expression) -> int:
    """The number of values that a period needs for its statistic."""
    return stats.binomial_floor(parsed.quantile) if parsed.quantile else 10


def needs(plan: PlanView, check: Check, parsed: Expression) -> Missing | None:
    probes = [load for load in plan.loads if load.probe and _selected(load, check)]
    if not probes:
        return Missing("drift is judged on a probe stream, and there is none here", "add a load with probe = true")
    trial = phase_intervals(plan, ("trial",))
    if rising := [load.id for load in plan.loads if trial and load.ramp_s > trial[0][0]]:
        because = f"load {rising[0]} still rises when the trial begins, and latency rises with it"
        return Missing(because, "end the ramp in the warm-up, or use a load without a ramp")
    if missing := periods.too_few_periods(plan):
        return missing
    width_s, floor = periods.period_length_s(plan), _floor(parsed)
    rate = sum(load.rate_mean or 0.0 for load in probes)
    if parsed.metric == "drift.itl":
        return None
    if rate * width_s < floor:
        planned = f"{rate * width_s:.0f} are planned"
        because = f"{parsed.stat} needs {floor} probes in each period of {duration(width_s)}, {planned}"
        return Missing(because, f"probe at {math.ceil(floor / width_s * 100) / 100:g}/s")
    return periods.too_few_periods(plan, floor / rate) or _unseen(plan, rate, parsed)


def _unseen(plan: PlanView, rate: float, parsed: Expression) -> Missing | None:
    """A reason when the planned probes cannot show a change near the limit."""
    if parsed.value <= 0:
        return Missing(
            "a limit of 0% cannot be judged: no number of probes shows that nothing changed", "a limit above 0%"
        )
    seen, probes, needed = _sight(plan, rate, parsed, LOG_SD_LEAST)
    if seen - parsed.value <= UNSEEN_MAX * parsed.value:
        return None
    because = (
        f"a limit of {parsed.value:.2%} cannot be judged: {probes:,.0f} probes show a change from {seen:.1%} on at best"
    )
    return Missing(
        because, f"{needed:,.0f} probes ({duration(needed / rate)} at {rate:g}/s), or a limit of {seen / 2:.0%}"
    )


def _sight(plan: PlanView, rate: float, parsed: Expression, log_sd: float) -> tuple[float, float, float]:
    """(the smallest change that is seen in nine runs of ten, the planned probes, the probes that show twice the limit).

    A quantile q of n lognormal latencies has the log error `log_sd` sqrt(q (1 - q) / n) / density(q). A line through
    equal periods makes it an error of the change of sqrt(12) times that, with n all probes of the trial.
    """
    probes = rate * length(selected_intervals(plan, "outside", ("trial",)))
    number, _ = periods.count_periods(plan)
    q, z = parsed.quantile, stats.normal_quantile(parsed.quantile or 0.5)
    spread = math.sqrt(q * (1 - q)) * math.sqrt(2 * math.pi) * math.exp(z * z / 2) if q else 1.0
    error = log_sd * spread * math.sqrt(12)
    errors = stats.t_quantile(1 - stats.ALPHA, number - 2) + stats.t_quantile(stats.POWER, number - 2)
    seen = math.expm1(math.log1p(parsed.value) + errors * error / math.sqrt(probes))
    return seen, probes, (errors * error / math.log((1 + 2 * parsed.value) / (1 + parsed.value))) ** 2


def _note(plan: PlanView, check: Check, parsed: Expression) -> str | None:
    rate = sum(load.rate_mean or 0.0 for load in plan.loads if load.probe and _selected(load, check))
    if parsed.metric == "drift.itl" or needs(plan, check, parsed) is not None:
        return None
    seen, probes, needed = _sight(plan, rate, parsed, LOG_SD)
    seeing = f"{probes:,.0f} probes see a change from {seen:.1%} on in nine runs of ten"
    return f"{seeing}, {needed:,.0f} see twice the limit; for latencies with a log SD of {LOG_SD:g}"
