"""Judge fresh_vs_aged: the target is not slower after its trial than a target that was just started.

    ... trial ---- recovery | restart | fresh |        aged: as long as `fresh`, up to the end of recovery
            [---- aged ----]           [fresh]        the same load, on the same machine, minutes apart

A drift over the trial may come from the machine; both sides of this comparison have the same machine.
"""

import math

from assertions import stats
from assertions.context import Judge, JudgeContext, Missing
from assertions.expression import Expression
from assertions.formatting import between, duration, seconds, size
from assertions.latency import latencies
from assertions.plan_view import Check, PlannedLoad, PlanView
from assertions.rows import Floats, Mask
from assertions.verdict import Judged, State
from assertions.windows import inside

FAMILY = "fresh_vs_aged"
SIDE_ALPHA = stats.ALPHA / 2
"""Both sides have an interval; together they are wrong in ALPHA of the runs."""
LOG_SD = 0.5
"""SD of the logarithm of a latency that the plan tells its sight for."""


def check_judge(check: Check, parsed: Expression) -> Judge:
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
    name, quantile = check.name, parsed.quantile
    metric = parsed.metric.removeprefix(f"{FAMILY}.")
    assert quantile is not None, "the stat of this metric is a quantile"
    fresh, aged = _intervals(context)
    sides = [_values(context, check, metric, here) for here in (aged, fresh)]
    floor = _floor(quantile)
    if min(len(side) for side in sides) < floor:
        because = f"{len(sides[0])} requests aged and {len(sides[1])} fresh, {floor} of each are needed"
        because = because if fresh else "the target was not started again"
        return Judged(
            name, State.UNKNOWN, because, because=context.cut_short or because, to_decide="a longer fresh phase"
        )
    (old_low, old, old_high), (new_low, new, new_high) = (_bounds(side, quantile) for side in sides)
    share, low, high = old / new - 1, old_low / new_high - 1, (old_high / new_low - 1 if new_low > 0 else math.inf)
    if not parsed.upward:
        state = State.PASS if low > parsed.value else State.FAIL if high < parsed.value else State.UNKNOWN
    else:
        state = State.PASS if high < parsed.value else State.FAIL if low > parsed.value else State.UNKNOWN
    told = f"{metric}.{parsed.stat} is {seconds(old)} aged and {seconds(new)} fresh ({share:+.1%})"
    undecided = state is State.UNKNOWN
    return Judged(
        name,
        state,
        told + _memory(context, aged, fresh),
        limit=f"{parsed.op} {parsed.value:.3g} as a share, in this run",
        observed=f"{share:+.1%}",
        interval=between(low, high, "share"),
        smallest_visible=f"{(1 + share) / (1 + low) - 1:.1%} above the limit" if low > -1 else None,
        owner="server" if state is State.FAIL else None,
        because="the interval of the difference spans the limit" if undecided else None,
        to_decide="a longer fresh phase, or a wider limit" if undecided else None,
        figures={"share": share, "low": low, "high": high, "aged_n": len(sides[0]), "fresh_n": len(sides[1])},
    )


def _intervals(context: JudgeContext) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """The fresh phase, and the time of equal length before the end of recovery; both empty without a restart."""
    fresh = context.intervals("fresh")
    served = context.intervals("trial", "recovery")
    restarted = any(event.kind == "target_restart" for event in context.history.events)
    if not fresh or not served or not restarted:
        return [], []
    end_ns = max(end_ns for _, end_ns in served)
    return fresh, [(end_ns - (fresh[0][1] - fresh[0][0]), end_ns)]


def _values(context: JudgeContext, check: Check, metric: str, here: list[tuple[float, float]]) -> Floats:
    """The latencies (s) of the chosen requests that were intended in `here`, in the order of time."""
    requests = context.history.requests
    mask: Mask = requests.load.among(*[load.id for load in _chosen(context.plan, check)]) & ~context.touched
    found = latencies(context, metric, mask & inside(requests.intended_ns, here))
    in_order: Floats = found.seconds[found.t_ns.argsort(kind="stable")]
    return in_order


def _bounds(values: Floats, quantile: float) -> tuple[float, float, float]:
    low, high = stats.quantile_interval(values, quantile, SIDE_ALPHA)
    ordered = sorted(values.tolist())
    return max(low, 0.0), ordered[min(len(ordered) - 1, int(quantile * len(ordered)))], high


def _memory(context: JudgeContext, aged: list[tuple[float, float]], fresh: list[tuple[float, float]]) -> str:
    """The anonymous memory of both processes, where it is known."""
    samples, _ = context.history.summed_samples("server.rss_anon", "server.swap")
    if samples is None:
        return ""
    parts = [samples.value[inside(samples.t_ns, here)] for here in (aged, fresh)]
    if not all(len(part) for part in parts):
        return ""
    return "; memory {} and {}".format(*(size(float(part.mean())) for part in parts))


def _chosen(plan: PlanView, check: Check) -> list[PlannedLoad]:
    """The loads that a check names; without a name the probes, or all loads where there is no probe."""
    named = [load for load in plan.loads if check.load in (None, load.id) and check.group in (None, load.group)]
    if check.load or check.group:
        return named
    return [load for load in named if load.probe] or named


def _floor(quantile: float) -> int:
    """The smallest number of values with an interval that is bounded at both ends."""
    return max(stats.binomial_floor(each, alpha=SIDE_ALPHA) for each in (quantile, 1 - quantile))


def needs(plan: PlanView, check: Check, parsed: Expression) -> Missing | None:
    fresh_s = _fresh_s(plan)
    if not fresh_s:
        return Missing("the target is not started again", 'add fresh = "5m" to [phases]')
    if odd := [load for load in plan.loads if load.period_s and fresh_s % load.period_s > 1e-6]:
        because = f"{duration(fresh_s)} of fresh are no whole periods of load {odd[0].id}, so the load differs"
        return Missing(because, f"fresh = {duration(odd[0].period_s or 0.0)}, or whole multiples")
    if any(load.arrival_counts is not None for load in plan.loads):
        return Missing("a trace brings other requests to the fresh target", "loads without a trace")
    expected, floor = _expected(plan, check), _floor(parsed.quantile or 0.5)
    if expected is not None and expected < floor:
        because = f"{parsed.stat} needs {floor} requests on each side, {expected:.0f} are planned"
        return Missing(because, f"fresh = {duration(math.ceil(fresh_s * floor / max(expected, 1)))}, or a faster probe")
    return None


def _fresh_s(plan: PlanView) -> float:
    return sum(phase.planned_s or 0.0 for phase in plan.phases if phase.name == "fresh")


def _expected(plan: PlanView, check: Check) -> float | None:
    """The planned requests of one side; None when only the target determines them."""
    rates = [load.rate_mean for load in _chosen(plan, check)]
    return None if None in rates else _fresh_s(plan) * sum(rate or 0.0 for rate in rates)


def _note(plan: PlanView, check: Check, parsed: Expression) -> str | None:
    n = _expected(plan, check)
    if n is None or needs(plan, check, parsed) is not None or not parsed.quantile:
        return None
    # Both intervals must be clear of each other, so their errors add up.
    errors = 2 * stats.normal_quantile(1 - SIDE_ALPHA) + math.sqrt(2) * stats.normal_quantile(stats.POWER)
    seen = math.expm1(math.log1p(parsed.value) + errors * LOG_SD * stats.quantile_error(parsed.quantile) / math.sqrt(n))
    return (
        f"{n:,.0f} requests on each side see an ageing from {seen:.1%} on in nine runs of ten; "
        f"for latencies with a log SD of {LOG_SD:g}"
    )
