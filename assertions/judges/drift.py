"""Judge drift: a request of a fixed kind takes as long at the end of the trial as at its start.

It is judged on a probe load, whose rate and sizes are constant while other loads change. The series is the logarithm of
a quantile in each block (assertions.probe_latency), and its growth is told as that of any series (assertions.trend):
what rose once, levels off, comes and goes or only just began is UNKNOWN and told as that. The change is that of the
whole trial.
"""

import math
from dataclasses import replace

from assertions import offered_load, periods, stats
from assertions.context import Judge, JudgeContext, Missing
from assertions.expression import Expression
from assertions.formatting import between, duration, seconds, since_start
from assertions.intervals import length
from assertions.judges.growth import evidence, risen, risen_since, shape_told, too_little, visible_errors
from assertions.offered_load import OfferedLoad
from assertions.plan_view import Check, PlannedLoad, PlanView
from assertions.planned_windows import phase_intervals, selected_intervals
from assertions.probe_latency import probe_values, probes, unanswered, values_needed, where_slower
from assertions.trend import Growth, SubBlocks, growth_of
from assertions.trend.growth import BLOCKS_MIN
from assertions.verdict import Judged, Level, State
from assertions.windows import NS_PER_S

DEFAULT_LIMIT = 0.2
MODES = 15
"""Cosine modes of the second line. Most noise of a quantile is that of few probes, which no block remembers."""
LOG_SD = 0.5
"""SD of the logarithm of a latency that the plan tells its sight for; the verdict has the run's own."""
LOG_SD_LEAST = 0.1
"""The steadiest latency on which a check may count: it is refused when its limit cannot be judged even then."""
UNSEEN_MAX = 2.0
"""The smallest visible change may lie beyond the limit by so many times the limit."""
HIDDEN_MAX = 0.25
"""The share of the limit that a trend of the load may hide."""


def judge(plan: PlanView, load: str) -> Judge:
    """The default judge of one probe: it observes the median time to first token and is never required."""
    parsed = Expression(f"drift.ttft.p50 < {DEFAULT_LIMIT:.0%}", "drift.ttft", "p50", "<", DEFAULT_LIMIT, "share")
    check = Check(parsed.text, load=load, level=Level.OBSERVE)
    made = check_judge(plan, check, parsed)
    return Judge(f"drift.ttft.p50 [{load}]", made.decide, made.needs, Level.OBSERVE, timing=True, note=made.note)


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
    values = probe_values(context, check, parsed)
    cut = values.cut(context, parsed)
    blocks = values.blocks(context, cut, parsed)
    if few := too_little(context, blocks, "probes"):
        because = f"{few[0]} of {values_needed(parsed)} probes each" if "blocks" in few[0] else few[0]
        return Judged(check.name, State.UNKNOWN, because, because=because, to_decide=f"{few[1]}, or a faster probe")
    load = offered_load.offered(context, cut, blocks)
    sign = 1.0 if parsed.upward else -1.0
    found = growth_of(replace(blocks, values=sign * blocks.values, covariates=load.covariates), MODES)
    state, reason = found.against(sign * math.log1p(parsed.value), total=True)
    lost = unanswered(context, check, parsed.metric.removeprefix("drift."), cut)
    quarters = [values.of_quarter(cut, parsed, last) for last in (False, True)]
    if load.hidden > HIDDEN_MAX * abs(parsed.value):
        state, reason = State.UNKNOWN, "load"
    elif state is State.PASS and lost.more:
        state, reason = State.UNKNOWN, "unanswered"
    number = float(values.weight[values.kept & (cut.blocks_of(values.t_ns) >= 0)].sum())
    made = _judged(context, check, parsed, blocks, found, sign, state, reason, load, number)
    told = f" (first quarter {seconds(quarters[0])}, last {seconds(quarters[1])}){lost.text}"
    figures = {"first_quarter": quarters[0], "last_quarter": quarters[1], "unanswered": lost.first[0] + lost.last[0]}
    owner = where_slower(context, check, parsed, cut) if state is State.FAIL and parsed.upward else None
    return replace(made, summary=made.summary + told, owner=owner, figures={**made.figures, **figures})


def _judged(
    context: JudgeContext,
    check: Check,
    parsed: Expression,
    blocks: SubBlocks,
    found: Growth,
    sign: float,
    state: State,
    reason: str,
    load: OfferedLoad,
    probes: float,
) -> Judged:
    span_s = blocks.span_ns / NS_PER_S
    size = found.line.size
    if reason == "ended":
        size = risen(found)
    elif reason == "late":
        size = found.late.size * (1 - found.late.shape.at)
    share, low, high = (math.expm1(sign * each) for each in (size, found.low, found.high))
    more = visible_errors(MODES) * found.line.error
    visible, needed = math.expm1(more), max(_floor(parsed), probes * (more / _step(parsed)) ** 2)
    observed = f"{share:+.1%}"
    summary = f"{parsed.metric.removeprefix('drift.')}.{parsed.stat} of the probe changed {observed} over "
    summary += duration(span_s)
    because, cure, since = None, None, None
    if state is State.FAIL:
        since = blocks.began_ns(found.late.shape.at) if reason == "late" else risen_since(blocks)
        summary += f", since {since_start(since)}"
    elif state is State.UNKNOWN:
        longer = f"{needed:,.0f} probes ({seconds(needed / probes * span_s)} at this rate)"
        because, cure = shape_told(blocks, found, reason, lambda rise: f"{math.expm1(sign * rise):+.1%}") or {
            "load": (f"the offered load changed by {load.change:+.0%} over the trial", "a load without a trend"),
            "unanswered": ("more probes of the last half got no answer, and the slow ones may be missing", "fewer"),
            "memory": ("the series remembers too long to tell drift from growth", f"{duration(span_s)} more"),
        }.get(reason, ("the interval of the change spans the limit", f"{longer}, or a limit of {max(low, high):.0%}"))
        summary += f": {because}"
    return Judged(
        check.name,
        state,
        summary,
        limit=f"{parsed.op} {parsed.value:.3g} as a share over the trial, in this run",
        observed=observed,
        interval=between(min(low, high), max(low, high), "share"),
        smallest_visible=f"{visible:.1%} above the limit in {probes:,.0f} probes over {duration(span_s)}",
        since_ns=since,
        fault=context.blame.at(since) if since is not None else None,
        evidence=evidence(blocks, lambda value: seconds(math.exp(value))) if state is not State.PASS else (),
        because=because,
        to_decide=cure,
        figures={
            "share": share,
            "low": min(low, high),
            "high": max(low, high),
            "smallest_visible": visible,
            "probes": probes,
            "probes_needed": needed,
            "load_change": load.change,
            "correlation": found.line.correlation,
            "blocks": len(blocks.at),
            "blocks_left_out": blocks.left_out,
        },
    )


def _step(parsed: Expression) -> float:
    """The growth of the logarithm that lies between the limit and twice the limit."""
    return math.log1p(abs(parsed.value) / (1 + parsed.value)) or math.inf


def _floor(parsed: Expression) -> int:
    """The number of values below which a trial is not judged."""
    return BLOCKS_MIN * values_needed(parsed)


def needs(plan: PlanView, check: Check, parsed: Expression) -> Missing | None:
    found = probes(plan, check)
    if not found:
        return Missing("drift is judged on a probe stream, and there is none here", "add a load with probe = true")
    trial = phase_intervals(plan, ("trial",))
    if rising := [load.id for load in plan.loads if trial and load.ramp_s > trial[0][0]]:
        because = f"load {rising[0]} still rises when the trial begins, and latency rises with it"
        return Missing(because, "end the ramp in the warm-up, or use a load without a ramp")
    if missing := periods.too_few_periods(plan):
        return missing
    load = offered_load.planned(plan)
    if load.hidden > HIDDEN_MAX * parsed.value > 0:
        because = f"the offered load changes by {load.change:+.0%} over the trial, and latency with it"
        return Missing(because, "a part of the trace without a trend, or another load")
    if parsed.value <= 0:
        because = "a limit of 0% cannot be judged: no number of probes shows that nothing changed"
        return Missing(because, "a limit above 0%")
    return _too_few_probes(plan, found, parsed) or _unseen(plan, found, parsed)


def _too_few_probes(plan: PlanView, found: list[PlannedLoad], parsed: Expression) -> Missing | None:
    rate, time_s = _rate(found), _quiet_s(plan)
    if parsed.metric == "drift.itl":
        rate *= max(1.0, (found[0].output_tokens or 2.0) - 1)
    floor = _floor(parsed)
    if rate * time_s >= floor:
        return None
    because = f"{parsed.stat} needs {floor:,} values outside fault windows, {rate * time_s:,.0f} are planned"
    return Missing(because, f"probe at {math.ceil(_rate(found) * floor / (rate * time_s) * 100) / 100:g}/s")


def _unseen(plan: PlanView, found: list[PlannedLoad], parsed: Expression) -> Missing | None:
    """A reason when the planned probes cannot show a change near the limit."""
    seen, planned, needed = _sight(plan, found, parsed, LOG_SD_LEAST)
    if seen - parsed.value <= UNSEEN_MAX * parsed.value:
        return None
    because = f"a limit of {parsed.value:.2%} cannot be judged: "
    because += f"{planned:,.0f} probes show a change from {seen:.1%} on at best"
    price = f"{needed:,.0f} probes ({seconds(needed / _rate(found))} at {_rate(found):g}/s)"
    return Missing(because, f"{price}, or a limit of {seen / 2:.0%}")


def _sight(plan: PlanView, found: list[PlannedLoad], parsed: Expression, log_sd: float) -> tuple[float, float, float]:
    """(the smallest change that is seen in nine runs of ten, the planned probes, the probes that show twice the limit).

    A quantile q of n lognormal latencies has the log error `log_sd` sqrt(q (1 - q) / n) / density(q). A line through
    equal blocks makes it an error of the change of sqrt(12) times that, with n all probes of the trial.
    """
    planned = _rate(found) * _quiet_s(plan)
    error = log_sd * (stats.quantile_error(parsed.quantile) if parsed.quantile else 1.0) * math.sqrt(12)
    seen = math.expm1(math.log1p(parsed.value) + visible_errors(MODES) * error / math.sqrt(planned))
    return seen, planned, max(_floor(parsed), (visible_errors(MODES) * error / _step(parsed)) ** 2)


def _rate(found: list[PlannedLoad]) -> float:
    return sum(load.rate_mean or 0.0 for load in found)


def _quiet_s(plan: PlanView) -> float:
    """The time (s) of trial outside fault windows."""
    return length(selected_intervals(plan, "outside", ("trial",)))


def _note(plan: PlanView, check: Check, parsed: Expression) -> str | None:
    if needs(plan, check, parsed) is not None:
        return None
    found = probes(plan, check)
    seen, planned, needed = _sight(plan, found, parsed, LOG_SD)
    over = duration(_quiet_s(plan))
    seeing = f"{planned:,.0f} probes in {over} see a change from {seen:.1%} on in nine runs of ten"
    hours = seconds(needed / _rate(found))
    return f"{seeing}, {needed:,.0f} in {hours} see twice the limit; for latencies with a log SD of {LOG_SD:g}"
