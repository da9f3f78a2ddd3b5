"""Judge check: one check of the scenario, `metric[.stat] op value`.

Shares, rates, means and extremes are exact in a run. A quantile is a claim about the distribution of requests, so it
has three results: few enough requests lie above the limit, too many do, or the number allows no decision. P99 can PASS
with 459 requests (none above), 662 (one above) or 2010 (ten above). Requests of one run are not independent, so texts
say "in this run".
"""

import numpy as np

from assertions import expression, stats
from assertions.context import Judge, JudgeContext, Missing
from assertions.expected_counts import expected_count, remedies
from assertions.expression import Expression
from assertions.formatting import amount, between, since_start
from assertions.judges import drift, fresh_vs_aged, leak
from assertions.latency import Values, chosen, chosen_loads, gaps, latencies, where_intervals
from assertions.measurements import measure
from assertions.plan_view import Check, PlanView
from assertions.verdict import Evidence, Judged, State
from assertions.windows import NS_PER_S, inside

LATENCIES = ("ttft", "itl", "e2e", "tpot")
LOWER = (95, 90, 50)
TIMING = (*LATENCIES, "throughput", "recovery")
ONLY_BUILTIN = {
    "max.fragmentation": "what its KV bytes were asked for",
    "fallback_rate": "its steps and their fallbacks",
    "failed_allocations": "how many calls for KV blocks it refused",
}
# `load.lateness` measures our own generator, so a breach of the load does not void it.


def judge(plan: PlanView, check: Check) -> Judge:
    """The judge of one check. Text that can't be parsed is refused by `needs`, and UNKNOWN in `decide`."""
    try:
        parsed = expression.parse(check.that)
    except ValueError as error:
        return _unreadable(check, str(error))
    if parsed.family == "leak":
        return leak.check_judge(plan, check, parsed)
    if parsed.family == "drift":
        return drift.check_judge(plan, check, parsed)
    if parsed.family == fresh_vs_aged.FAMILY:
        return fresh_vs_aged.check_judge(check, parsed)
    return Judge(
        check.name,
        lambda context: decide(context, check, parsed),
        lambda plan: needs(plan, check, parsed),
        level=check.level,
        timing=parsed.family in TIMING,
        asked=True,
        note=lambda plan: _note(plan, check, parsed),
    )


def decide(context: JudgeContext, check: Check, parsed: Expression) -> Judged:
    known = {fault.id for fault in context.plan.faults}
    if check.where not in ("outside", "all") and check.where not in {w.row.id for w in context.windows}:
        never = "did not fire" if check.where in known else "is not in the plan"
        because = f"fault {check.where} {never}, so there is no time to judge"
        return Judged(check.name, State.UNKNOWN, because, because=because, to_decide="a fault that fires")
    if parsed.family in LATENCIES:
        return _latency(context, check, parsed)
    fact, detail, interval = measure(context, check, parsed.metric)
    if fact is None:
        return Judged(check.name, State.UNKNOWN, detail, because=context.cut_short or detail, to_decide="more traffic")
    state = State.PASS if parsed.holds(fact) else State.FAIL
    observed = amount(fact, parsed.dimension)
    return Judged(
        check.name,
        state,
        f"{parsed.metric} is {observed} in this run ({detail})",
        limit=f"{parsed.op} {amount(parsed.value, parsed.dimension)}",
        observed=observed,
        interval=interval,
        smallest_visible="exact in this run" if state is State.FAIL else None,
        figures={"value": fact},
    )


def _latency(context: JudgeContext, check: Check, parsed: Expression) -> Judged:
    values = _values(context, check, parsed)
    n = values.n
    if n == 0:
        because = "no request to measure"
        return Judged(
            check.name, State.UNKNOWN, because, because=context.cut_short or because, to_decide="more traffic"
        )
    limit = f"{parsed.metric}.{parsed.stat} {parsed.op} {amount(parsed.value, 'time')}"
    if parsed.quantile is None:
        fact = values.mean() if parsed.stat == "mean" else float(values.seconds[-1])
        state = State.PASS if parsed.holds(fact) else State.FAIL
        worst, failed_upward = values.t_ns[-1], state is State.FAIL and parsed.upward
        return Judged(
            check.name,
            state,
            f"{parsed.metric}.{parsed.stat} is {amount(fact, 'time')} over {n} in this run",
            limit=limit,
            observed=amount(fact, "time"),
            since_ns=int(worst) if failed_upward else None,
            fault=context.blame.at(worst + values.seconds[-1] * NS_PER_S) if failed_upward else None,
            smallest_visible="exact in this run",
            evidence=_slowest(context, values) if state is State.FAIL else (),
            figures={"value": fact, "n": n},
        )
    return _quantile(context, check, parsed, values, limit)


def _quantile(context: JudgeContext, check: Check, parsed: Expression, values: Values, limit: str) -> Judged:
    """Decide a quantile by binomial tests in both directions. For `>` values below the limit are counted."""
    n, q = values.n, parsed.quantile
    assert q is not None
    over = values.over(parsed.value, strict=parsed.op in ("<", ">="))
    if parsed.upward:
        count, share = over, q
    else:
        count, share = n - over, 1 - q
    allowed, tolerated = stats.over_allowed(n, share), stats.over_tolerated(n, share)
    state = State.PASS if count <= allowed else State.FAIL if count > tolerated else State.UNKNOWN
    observed = amount(values.quantile(q), "time")
    low, high = values.ranks(stats.quantile_ranks(n, q))
    side = "above" if parsed.upward else "below"
    late = np.flatnonzero(values.seconds > parsed.value)
    first = late[np.argmin(values.t_ns[late])] if state is State.FAIL and parsed.upward and len(late) else None
    because, cure = None, None
    if state is State.UNKNOWN:
        floor = stats.binomial_floor(share, count)
        because = (
            f"{count} of {n} lie {side} the limit: to PASS at most {max(allowed, 0)} may, to FAIL over {tolerated}"
        )
        if allowed < 0:
            because = f"{n} requests, at least {stats.binomial_floor(share)} are needed"
        cure = f"{floor} requests with no more {side} the limit"
    return Judged(
        check.name,
        state,
        f"{parsed.metric}.{parsed.stat} is {observed} over {n} in this run, {count} {side} the limit",
        limit=limit,
        observed=observed,
        interval=between(low, high, "time"),
        smallest_visible=f"{tolerated + 1} of {n} {side} the limit",
        since_ns=None if first is None else int(values.t_ns[first]),
        # The fault is looked up at the request's end: it may have fired after the request began.
        fault=None if first is None else context.blame.at(values.t_ns[first] + values.seconds[first] * NS_PER_S),
        evidence=_slowest(context, values) if state is State.FAIL and parsed.upward else (),
        because=because,
        to_decide=cure,
        figures={"value": values.quantile(q), "n": n, "over": count} | _per_phase(context, check, parsed),
    )


def _values(context: JudgeContext, check: Check, parsed: Expression) -> Values:
    if parsed.metric == "itl":
        intervals, out = where_intervals(context, check.where)
        return gaps(context, chosen_loads(context.plan, check), intervals, out)
    return latencies(context, parsed.metric, chosen(context, check))


def _per_phase(context: JudgeContext, check: Check, parsed: Expression) -> dict[str, float]:
    """The quantile in each phase that has enough requests for it."""
    if parsed.metric == "itl" or parsed.quantile is None:
        return {}
    mask, intended, found = chosen(context, check), context.history.requests.intended_ns, {}
    for phase in ("baseline", "trial", "recovery"):
        values = latencies(context, parsed.metric, mask & inside(intended, context.intervals(phase)))
        if values.n >= 1 / (1 - parsed.quantile):
            found[phase] = values.quantile(parsed.quantile)
    return found


def _slowest(context: JudgeContext, values: Values, shown: int = 3) -> tuple[Evidence, ...]:
    """The slowest requests. For gaps only the window of the histogram is known, not the request."""
    intended = context.history.requests.intended_ns
    found = []
    for seconds, t_ns in zip(values.seconds[-shown:][::-1], values.t_ns[-shown:][::-1], strict=True):
        rows = np.flatnonzero(intended == t_ns)
        request = context.history.requests.id[int(rows[0])] if len(rows) else None
        text = f"{amount(float(seconds), 'time')}, intended at {since_start(t_ns)}"
        found.append(Evidence(int(t_ns), request, text))
    return tuple(found)


def needs(plan: PlanView, check: Check, parsed: Expression) -> Missing | None:
    if check.load is not None and plan.loads and check.load not in {load.id for load in plan.loads}:
        return Missing(f'no load "{check.load}"', f"loads are {', '.join(load.id for load in plan.loads)}")
    if check.where not in ("outside", "all") and check.where not in {fault.id for fault in plan.faults}:
        return Missing(f'no fault "{check.where}"', 'where is "outside", "all" or the id of a fault')
    if parsed.family == "recovery" and not plan.faults:
        return Missing("recovery needs a fault", "add a [[fault]]")
    if parsed.family == "host" and plan.drive == "virtual":
        return Missing("a virtual run does not measure the host", 'set drive = "live"')
    if parsed.metric in ONLY_BUILTIN:
        told = plan.target_kind == "builtin"
        return None if told else Missing(f"only the built-in runtime tells {ONLY_BUILTIN[parsed.metric]}", "drop it")
    if parsed.family == "max":
        return leak.no_process(plan)
    return _too_few(plan, check, parsed)


def _too_few(plan: PlanView, check: Check, parsed: Expression) -> Missing | None:
    """A reason when too few requests are certain to come where the check looks; None when enough are."""
    what = _counted(parsed)
    seen = expected_count(plan, check, what) if what else None
    if what is None or seen is None:
        return None
    floor, asked = _floor(parsed, parsed.quantile), parsed.stat or parsed.metric
    if seen.least >= floor:
        return None
    ways = list(remedies(plan, check, what, floor))
    lower = [f"p{q}" for q in LOWER if parsed.quantile and q / 100 < parsed.quantile]
    ways += [each for each in lower if seen.least >= _floor(parsed, int(each[1:]) / 100)][:1]
    where = {"all": "in all", "outside": "outside fault windows"}.get(check.where, f"in the windows of {check.where}")
    unit = "gaps" if what == "itl" else "requests"
    because = f"{asked} needs {floor} {unit}, {seen.mean:.0f} are planned {where} and {seen.least} are sure to come"
    return Missing(because, " or ".join(ways) or "more traffic, or fewer faults")


def _counted(parsed: Expression) -> str | None:
    """The name of what this metric counts, as `expected_count` takes it; None when it counts no requests."""
    if parsed.family in (*LATENCIES, "throughput"):
        return parsed.family
    return parsed.metric if parsed.metric in ("errors", "errors.outside", "refused", "dropped") else None


def _floor(parsed: Expression, quantile: float | None) -> int:
    """The number of values below which the check always ends UNKNOWN."""
    if not quantile:
        return 1
    return stats.binomial_floor(quantile if parsed.upward else 1 - quantile)


def _note(plan: PlanView, check: Check, parsed: Expression) -> str | None:
    """A text that says how many of the planned requests may break the limit of a quantile."""
    seen = expected_count(plan, check, parsed.family) if parsed.family in ("ttft", "e2e", "tpot") else None
    if seen is None or not parsed.quantile:
        return None
    planned = round(seen.mean)
    share = parsed.quantile if parsed.upward else 1 - parsed.quantile
    allowed = stats.over_allowed(planned, share)
    tolerated = stats.over_tolerated(planned, share)
    return f"of about {planned} requests {allowed} may break the limit and PASS, over {tolerated} FAIL"


def _unreadable(check: Check, error: str) -> Judge:
    return Judge(
        check.name,
        lambda context: Judged(check.name, State.UNKNOWN, error, because=error, to_decide="write the check again"),
        lambda plan: Missing(error, "write the check again"),
        level=check.level,
        asked=True,
    )
