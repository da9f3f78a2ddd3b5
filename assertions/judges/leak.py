"""Judge leak: memory, descriptors, threads and KV blocks of the server do not go on growing (assertions.trend).

A check gives a budget per hour. Without one, each series is observed against a growth of 4 of its own SD over the
trial: at that budget nine of ten clean 8 h runs pass, and under smaller budgets most end UNKNOWN (simulated).
"""

from dataclasses import replace

from assertions import periods
from assertions.context import Judge, JudgeContext, Missing
from assertions.expression import Expression
from assertions.formatting import amount, between, duration, since_start, size
from assertions.judges.growth import (
    cut_of_trial,
    evidence,
    restarts_ns,
    risen_since,
    shape_told,
    too_little,
    visible_errors,
)
from assertions.periods import PERIODS_MIN
from assertions.plan_view import Check, PlanView
from assertions.rows import Samples
from assertions.trend import Growth, SubBlocks, certain_ns, growth_of, least_width_ns, lowest, mean, sub_blocks
from assertions.trend.noise import MODES
from assertions.trend.sub_blocks import BlockValue
from assertions.verdict import Judged, Level, State
from assertions.windows import NS_PER_S

# metric -> (series that are summed, dimension, capability, True when judged on period minima, the level when idle)
SERIES: dict[str, tuple[tuple[str, ...], str, str, bool]] = {
    # RssAnon and swap: RSS alone hides a leak that is swapped out
    "rss_anon": (("server.rss_anon", "server.swap"), "bytes_per_hour", "pid", False),
    "fds": (("server.fds",), "count_per_hour", "pid", False),
    "sockets": (("server.sockets",), "count_per_hour", "pid", False),
    "threads": (("server.threads",), "count_per_hour", "pid", False),
    "file_cache": (("server.file_cache",), "bytes_per_hour", "pid", False),
    "kv_live": (("kv.live_blocks",), "count_per_hour", "kv_live", True),
    "fragmentation": (("kv.internal_fragmentation",), "share_per_hour", "builtin", False),
    "swap_fragmentation": (("pool.fragmentation[io]",), "share_per_hour", "builtin", False),
}
OBSERVED = ("rss_anon", "fds", "sockets", "threads", "kv_live")
"""The series that are judged without a check. A log that grows is usual, so `file_cache` needs a check."""
OWN_SD_BUDGET = 4.0
PAGE_BYTES = 4096


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
        lambda plan: needs(plan, series) or _too_fine(plan, series, parsed),
        level=check.level,
        asked=True,
        note=lambda plan: _note(plan),
    )


def decide(context: JudgeContext, series: str, parsed: Expression | None, name: str) -> Judged:
    samples, why = context.history.summed_samples(*SERIES[series][0])
    if samples is None:
        return Judged(name, State.UNKNOWN, why, because=why, to_decide="a sensor for it")
    blocks = _blocks(context, samples, lowest if SERIES[series][3] else mean)
    if few := too_little(context, blocks):
        return Judged(name, State.UNKNOWN, few[0], because=few[0], to_decide=few[1])
    op = parsed.op if parsed else "<"
    sign = 1.0 if op in ("<", "<=") else -1.0
    found = growth_of(replace(blocks, values=sign * blocks.values))
    hours = blocks.span_ns / periods.HOUR_NS
    budget = parsed.value if parsed else OWN_SD_BUDGET * found.residual_sd / hours
    state, reason = found.against(sign * budget * hours)
    judged = _judged(context, name, series, blocks, found, sign / hours, state, reason, op, budget, not parsed)
    if state is not State.FAIL:
        return judged

    def state_of(part: SubBlocks) -> State:
        grown = growth_of(replace(part, values=sign * part.values))
        return grown.against(sign * budget * part.span_ns / periods.HOUR_NS)[0]

    certain = certain_ns(blocks, state_of)
    figures = {**judged.figures, "certain_s": certain / NS_PER_S}
    return replace(judged, summary=f"{judged.summary}; certain by {since_start(certain)}", figures=figures)


def _judged(
    context: JudgeContext,
    name: str,
    series: str,
    blocks: SubBlocks,
    found: Growth,
    per_hour: float,
    state: State,
    reason: str,
    op: str,
    budget: float,
    own: bool,
) -> Judged:
    """`per_hour` turns a growth over the span into one per hour, in the direction of the series."""
    dimension = SERIES[series][1]
    unit = dimension.removesuffix("_per_hour")
    slope, robust = found.line.size * per_hour, found.theil_sen * per_hour
    low, high = sorted((found.low * per_hour, found.high * per_hour))
    limit = f"growth {op} {amount(budget, dimension)}" + (f" ({OWN_SD_BUDGET:g} SD of its own)" if own else "")
    observed = f"{amount(slope, dimension)} (Theil-Sen {amount(robust, dimension)})"
    summary, cure = f"grows {observed} over {duration(blocks.span_ns / NS_PER_S)}", None
    since = None
    if state is State.FAIL:
        since = blocks.began_ns(found.late.shape.at) if reason == "late" else risen_since(blocks)
        late = amount(found.late.size * per_hour, dimension)
        summary = f"grows {late} since {since_start(since)}" if reason == "late" else f"grows {observed}"
        summary += f", {limit} was asked"
    elif state is State.UNKNOWN:
        summary, cure = _undecided(blocks, found, reason, dimension, amount(high, dimension), observed)
    more = visible_errors(MODES) * found.line.error * abs(per_hour)
    return Judged(
        name,
        state,
        summary,
        limit=limit,
        observed=observed,
        interval=between(low, high, dimension),
        smallest_visible=f"{amount(more, dimension)} above the limit",
        since_ns=since,
        fault=context.blame.at(since) if since is not None else None,
        owner=_owner(context, blocks, series) if state is State.FAIL else None,
        evidence=evidence(blocks, lambda value: amount(value, unit)) if state is not State.PASS else (),
        because=summary if state is State.UNKNOWN else None,
        to_decide=cure,
        figures={
            "per_hour": slope,
            "low": low,
            "high": high,
            "theil_sen": robust,
            "smallest_visible": more,
            "correlation": found.line.correlation,
            "blocks": len(blocks.at),
            "blocks_left_out": blocks.left_out,
        },
    )


def _owner(context: JudgeContext, blocks: SubBlocks, series: str) -> str:
    """The server, and that child of it which holds more than half of the growth."""
    middle_ns = float(blocks.start_ns[len(blocks.at) // 2])
    for child, name in context.history.child_series(SERIES[series][0][0]).items():
        samples = context.history.samples(name)
        late = None if samples is None else samples.t_ns >= middle_ns
        if samples is not None and late is not None and late.any() and not late.all():
            grown = float(samples.value[late].mean() - samples.value[~late].mean())
            whole = float(
                blocks.values[blocks.start_ns >= middle_ns].mean() - blocks.values[blocks.start_ns < middle_ns].mean()
            )
            if grown > whole / 2 > 0:
                return f"server, child {child}"
    return "server"


def _undecided(
    blocks: SubBlocks, found: Growth, reason: str, dimension: str, wider: str, observed: str
) -> tuple[str, str]:
    """The reason of an UNKNOWN, and the cure."""
    unit = dimension.removesuffix("_per_hour")
    if shape := shape_told(blocks, found, reason, lambda size: f"+{amount(size, unit)}"):
        return shape
    if reason == "memory":
        more = f"{duration(blocks.span_ns / NS_PER_S)} more"
        return f"grows {observed}, but the series remembers too long to tell drift from growth", more
    return f"grows {observed}, but the interval spans the limit", f"more periods, or a limit of {wider}"


def _blocks(context: JudgeContext, samples: Samples, value: BlockValue) -> SubBlocks:
    quiet = periods.quiet(context, samples.t_ns)
    cut = cut_of_trial(context, least_width_ns(samples.t_ns))
    return sub_blocks(cut, samples.t_ns, samples.value, quiet, restarts_ns(context), value)


def needs(plan: PlanView, series: str) -> Missing | None:
    if SERIES[series][2] == "pid":
        missing = no_process(plan)
    elif SERIES[series][2] == "builtin":
        told = plan.target_kind == "builtin"
        missing = None if told else Missing("only the built-in runtime tells the fragmentation of its pools", "drop it")
    elif "kv_live" in plan.capabilities:
        missing = None
    else:
        missing = Missing("the target has no kv_live", "give target.metrics with a gauge of live KV blocks")
    return missing or periods.too_few_periods(plan)


def _too_fine(plan: PlanView, series: str, parsed: Expression) -> Missing | None:
    """A reason when a budget of memory is less than one page over the trial, which no reading shows."""
    budget = abs(parsed.value) * (plan.trial_s or 0.0) / 3600
    if SERIES[series][1] != "bytes_per_hour" or not 0 < budget < PAGE_BYTES:
        return None
    because = f"{amount(parsed.value, 'bytes_per_hour')} is {size(budget)} over the trial, less than one page of memory"
    return Missing(
        because, f"a budget of {size(PAGE_BYTES * 3600 / (plan.trial_s or 1.0))}/h or more, or a longer trial"
    )


def no_process(plan: PlanView) -> Missing | None:
    """A reason when the server's process cannot be watched."""
    if plan.drive == "virtual":
        return Missing("a virtual run has no server process", 'set drive = "live"')
    return None if "pid" in plan.capabilities else Missing("the target has no pid", "give target.pid")


def _note(plan: PlanView) -> str | None:
    number, _ = periods.count_periods(plan)
    if number < PERIODS_MIN:
        return None
    return f"a budget under about {OWN_SD_BUDGET:g} SD of the series over the trial is seldom decidable"
