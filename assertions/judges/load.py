"""Judge load: the load generator kept its schedule. Otherwise no latency of this run can be trusted.

It must send in time, drop nothing outside fault windows, have processor time to spare, and send as much as planned. A
breach is UNKNOWN and voids the timing judges. Where a generator with time to spare drops arrivals, because the server
leaves all places taken, the server is named, and timing judges that FAIL stand.
"""

import math

import numpy as np

from assertions import expression
from assertions.context import Judge, JudgeContext
from assertions.formatting import seconds
from assertions.plan_view import PlannedLoad, PlanView
from assertions.rows import DROPPED
from assertions.verdict import Evidence, Judged, State
from assertions.windows import NS_PER_S, in_flight

NAME = "load"
LATENESS_FLOOR_S = 0.010
LATENESS_SHARE = 0.05  # share of the tightest latency limit
DROPPED_MAX = 0.001
CPU_MAX, CPU_BUSY_SHARE = 0.90, 0.05  # cores, and the share of seconds that may lie above them
SHORTFALL_SHARE, SHORTFALL_SD = 0.05, 5.0  # a Poisson load may miss its mean by chance, but not by 5 SD


def lateness_limit_s(plan: PlanView) -> float:
    """The allowed P99 lateness (s): the larger of 10 ms and 5 % of the tightest latency limit of the checks."""
    limits = []
    for check in plan.checks:
        try:
            parsed = expression.parse(check.that)
        except ValueError:
            continue  # the check's own judge reports it
        if parsed.family in ("ttft", "itl", "e2e", "tpot") and parsed.upward:
            limits.append(parsed.value)
    return max(LATENESS_FLOOR_S, LATENESS_SHARE * min(limits)) if limits else LATENESS_FLOOR_S


def decide(context: JudgeContext) -> Judged:
    requests = context.history.requests
    measured = context.measured
    late_s = ((requests.sent_ns - requests.intended_ns) / NS_PER_S)[measured & requests.sent]
    limit_s = lateness_limit_s(context.plan)
    if not len(late_s):
        because = "no request was sent in the measured phases"
        return Judged(NAME, State.UNKNOWN, because, because=because, to_decide="a longer trial")
    p99_s, max_s = float(np.quantile(late_s, 0.99)), float(late_s.max())
    outside = measured & ~context.touched
    dropped = int(np.count_nonzero(outside & requests.outcome.among(DROPPED)))
    share = dropped / max(1, int(np.count_nonzero(outside)))
    busy = _busy_share(context)
    figures = {
        "lateness_p99_s": p99_s,
        "lateness_max_s": max_s,
        "dropped_outside": dropped,
        "dropped_in_windows": int(np.count_nonzero(measured & context.touched & requests.outcome.among(DROPPED))),
        "sent": len(late_s),
        "held": _held(context),
    } | ({} if busy is None else {"cpu_busy_share": busy})
    breaches = []
    if p99_s > limit_s:
        worst = int(np.nanargmax(np.where(measured, requests.sent_ns - requests.intended_ns, np.nan)))
        text = f"sent late: P99 {seconds(p99_s)}, at most {seconds(max_s)}; the limit is {seconds(limit_s)}"
        breaches.append(Evidence(requests.start_of(worst), requests.id[worst], text))
    if busy is not None and busy > CPU_BUSY_SHARE:
        breaches.append(Evidence(None, None, f"the generator's processor was full in {busy:.0%} of the seconds"))
    breaches += _shortfall(context)
    hung = not breaches
    if share > DROPPED_MAX:
        row = int(np.flatnonzero(outside & requests.outcome.among(DROPPED))[0])
        text = f"{dropped} arrivals dropped outside fault windows ({share:.2%}): {_taken(context, row)}"
        breaches.append(Evidence(requests.start_of(row), requests.id[row], text))
    limit = f"sent within {seconds(limit_s)} (P99), at most {DROPPED_MAX:.1%} dropped, processor to spare, all sent"
    observed = f"P99 {seconds(p99_s)}, {dropped} dropped"
    if breaches:
        return Judged(
            NAME,
            State.UNKNOWN,
            breaches[0].text,
            limit=limit,
            observed=observed,
            since_ns=breaches[0].t_ns,
            owner="server" if hung else "load",
            evidence=tuple(breaches),
            because=breaches[0].text,
            to_decide="see why the server left them waiting; else a lower rate, or a larger in_flight_max"
            if hung
            else "a quieter or larger machine for the generator, a lower rate, or a larger in_flight_max",
            figures=figures,
        )
    held = f", {figures['held']:g} held back for the target's sake" if figures["held"] else ""
    text = f"{len(late_s)} sent in time (P99 {seconds(p99_s)} late), {dropped} dropped{held}"
    return Judged(NAME, State.PASS, text, limit=limit, observed=observed, figures=figures)


def _taken(context: JudgeContext, dropped: int) -> str:
    """Say who took the places of the load when the arrival in the row `dropped` found none."""
    requests, t_ns = context.history.requests, context.history.requests.start_of(dropped)
    waiting = in_flight(requests, t_ns) & requests.load.among(requests.load[dropped])
    if not waiting.any():
        return "all places for requests in flight were taken"
    longest_s = (t_ns - float(requests.sent_ns[waiting].min())) / NS_PER_S
    return f"{np.count_nonzero(waiting)} requests in flight had no end, the first for {seconds(longest_s)}"


def _busy_share(context: JudgeContext) -> float | None:
    """The share of samples in which the load process used a whole core; None when it was not measured."""
    cpu = context.history.samples("load.cpu")
    return None if cpu is None or not len(cpu.value) else float(np.mean(cpu.value > CPU_MAX))


def _shortfall(context: JudgeContext) -> list[Evidence]:
    """Evidence of loads that sent fewer requests than planned, in a run that came to its end.

    Requests held back by politeness (a ramp, Retry-After, a limit) are not missing, and may belong to any load.
    """
    if context.cut_short:
        return []
    held = _held(context)
    requests, found = context.history.requests, []
    for load in context.plan.loads:
        if load.arrivals_planned is None:
            continue
        planned, came = _promised(context, load), int(np.count_nonzero(requests.load.among(load.id)))
        slack = SHORTFALL_SHARE * planned + SHORTFALL_SD * math.sqrt(planned)
        if came < planned - slack - held:
            found.append(Evidence(None, None, f"{load.id}: {came} arrivals, {planned:.0f} were planned"))
    return found


def _promised(context: JudgeContext, load: PlannedLoad) -> float:
    """The planned number of arrivals. A trace counts for as long as the load really lasted."""
    assert load.arrivals_planned is not None
    ends = [end_ns for _, end_ns in context.intervals("recovery")]
    starts = [start_ns for start_ns, _ in context.intervals("warmup")]
    if load.arrival_counts is None or not ends or not starts:
        return load.arrivals_planned
    paused_ns = sum(end_ns - start_ns for start_ns, end_ns in context.intervals("quiesce"))
    return load.arrival_counts.by((ends[-1] - starts[0] - paused_ns) / NS_PER_S)


def _held(context: JudgeContext) -> float:
    return sum(event.value or 0.0 for event in context.history.events if event.kind == "held" and event.proc == "load")


def judge(plan: PlanView) -> Judge:
    return Judge(NAME, decide)
