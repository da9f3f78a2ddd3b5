"""Judge recovery: after each heal the service works again, and is as fast as before.

Two conditions hold for each occurrence that fired. A request intended after the heal ends ok within `recover`. After
that time the median latency is within a band of the baseline's. The first is exact; the second is timing, so a breach
of the load voids it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from assertions import stats
from assertions.context import Judge, JudgeContext, Missing, shown
from assertions.formatting import seconds
from assertions.judges import load
from assertions.plan_view import PlanView
from assertions.rows import Mask
from assertions.verdict import Evidence, Judged, State
from assertions.windows import NS_PER_S, RECOVER_DEFAULT_S, FaultWindow

NAME = "recovery"
BAND_TIMES = 2.0  # the median after recovery may be this many times the baseline's; both medians have an interval
COMPARED_MIN = 20  # requests on each side; fewer say nothing about a median


@dataclass(frozen=True)
class Recovered:
    """The recovery of one occurrence. `within_s` is infinite when no later request ended ok."""

    window: FaultWindow
    within_s: float | None  # None: not decidable, see `text`
    limit_s: float | None
    state: State
    text: str


def decide(context: JudgeContext) -> Judged:
    breach = load.decide(context)
    timed = breach.state is State.PASS
    found = [_one(context, window, timed) for window in context.windows]
    limit = f"ok completions within `recover` of each heal, median at most {BAND_TIMES:g} times the baseline's"
    times = [each.within_s for each in found if each.within_s is not None]
    figures = {"occurrences": float(len(found))}
    if times and np.isfinite(times).all():
        figures |= {"recovery_max_s": max(times), "recovery_median_s": float(np.median(times))}
    failed = [each for each in found if each.state is State.FAIL]
    doubtful = [each for each in found if each.state is State.UNKNOWN]
    if failed:
        worst = failed[0]
        return Judged(
            NAME,
            State.FAIL,
            worst.text,
            limit=limit,
            observed=worst.text,
            smallest_visible=f"a heal without an ok completion, or a median {BAND_TIMES:g} times the baseline's",
            since_ns=worst.window.heal_ns,
            fault=worst.window.name,
            evidence=shown([Evidence(each.window.heal_ns, None, each.text) for each in failed]),
            figures=figures,
        )
    if doubtful or not found:
        because = doubtful[0].text if doubtful else "no fault fired, so nothing had to recover"
        return Judged(
            NAME,
            State.UNKNOWN,
            because,
            limit=limit,
            evidence=shown([Evidence(each.window.heal_ns, None, each.text) for each in doubtful]),
            because=context.cut_short or because,
            to_decide="traffic after the heal, and time enough for it",
            figures=figures,
        )
    if not timed:
        # The exact condition holds, but the speed can't be judged.
        because = f"load: {breach.summary}"
        text = f"{len(found)} recoveries, but their latency cannot be judged"
        cure = breach.to_decide
        return Judged(NAME, State.UNKNOWN, text, limit=limit, because=because, to_decide=cure, figures=figures)
    return Judged(
        NAME,
        State.PASS,
        f"{len(found)} recoveries, the slowest in {seconds(max(times))}" if times else f"{len(found)} recoveries",
        limit=limit,
        observed=seconds(max(times)) if times else None,
        figures=figures,
    )


def _one(context: JudgeContext, window: FaultWindow, timed: bool) -> Recovered:
    if window.heal_ns is None:
        return Recovered(window, None, None, State.UNKNOWN, f"{window.name} never healed")
    within_s = first_ok_s(context, window, context.measured | _canaries(context))
    expect = window.expect
    if expect.recover_completed is not None:
        return _by_work(context, window, within_s, expect.recover_completed)
    limit_s = RECOVER_DEFAULT_S if expect.recover_s is None else expect.recover_s
    if within_s is not None and within_s <= limit_s:
        slow = _still_slow(context, window) if timed else None
        if slow:
            return Recovered(window, within_s, limit_s, State.FAIL, slow)
        text = f"{window.name}: ok again {seconds(within_s)} after the heal"
        return Recovered(window, within_s, limit_s, State.PASS, text)
    asked = _asked_after(context, window.heal_ns, window.heal_ns + limit_s / 2 * NS_PER_S)
    lasted = context.history.end_ns >= window.heal_ns + limit_s * NS_PER_S
    if asked and lasted:
        when = "no request ended well any more" if within_s is None else f"the first ok came {seconds(within_s)} later"
        text = f"{window.name}: {when}, {seconds(limit_s)} after the heal were allowed ({asked} were asked)"
        return Recovered(window, np.inf if within_s is None else within_s, limit_s, State.FAIL, text)
    why = "the run ended first" if not lasted else "nothing was asked soon after the heal"
    return Recovered(window, None, limit_s, State.UNKNOWN, f"{window.name}: {why}")


def first_ok_s(context: JudgeContext, window: FaultWindow, mask: Mask) -> float | None:
    """Seconds from the heal to the first ok end of a request intended after it; None without such a request."""
    requests = context.history.requests
    assert window.heal_ns is not None
    ends = requests.end_ns[mask & requests.ok & (requests.intended_ns >= window.heal_ns)]
    return float(ends.min() - window.heal_ns) / NS_PER_S if len(ends) else None


def _by_work(context: JudgeContext, window: FaultWindow, within_s: float | None, completed: int) -> Recovered:
    """Judge `recover = {completed}`: one of the first `completed` requests that end after the heal must be ok."""
    requests = context.history.requests
    assert window.heal_ns is not None
    after = np.flatnonzero(requests.sent & (requests.end_ns > window.heal_ns))
    order = after[np.argsort(requests.end_ns[after], kind="stable")]
    if requests.ok[order[:completed]].any():
        text = f"{window.name}: ok again within {completed} ends"
        return Recovered(window, within_s, None, State.PASS, text)
    if len(order) >= completed:
        text = f"{window.name}: none of the {completed} requests that ended after the heal was ok"
        return Recovered(window, np.inf, None, State.FAIL, text)
    text = f"{window.name}: only {len(order)} of {completed} requests ended after the heal"
    return Recovered(window, None, None, State.UNKNOWN, text)


def _still_slow(context: JudgeContext, window: FaultWindow) -> str | None:
    """A text when latency after the recovery margin, until the next fault, exceeds the band; else None."""
    requests = context.history.requests
    later = [other.arm_ns for other in context.windows if other.arm_ns > window.end_ns]
    until = min([*later, context.history.end_ns])
    overlapped = any(w is not window and w.arm_ns <= until and w.end_ns > window.end_ns for w in context.windows)
    starts = context.intervals("baseline") or context.intervals("trial")
    if overlapped or not starts:
        return None
    first_arm = min(w.arm_ns for w in context.windows)
    base_end = starts[0][1] if context.intervals("baseline") else first_arm
    latency = requests.end_ns - requests.intended_ns
    ok = requests.ok & context.measured & _comparable(context)
    before = latency[ok & (requests.intended_ns >= starts[0][0]) & (requests.intended_ns <= base_end)]
    after = latency[ok & (requests.intended_ns > window.end_ns) & (requests.intended_ns < until)]
    if len(before) < COMPARED_MIN or len(after) < COMPARED_MIN:
        return None
    was_s, is_s = float(np.median(before)) / NS_PER_S, float(np.median(after)) / NS_PER_S
    surely_ns = stats.quantile_interval(after)[0] - BAND_TIMES * stats.quantile_interval(before)[1]
    if not surely_ns > 0 or is_s - was_s < load.LATENESS_FLOOR_S:
        return None
    return (
        f"{window.name}: median e2e is {seconds(is_s)} after recovery, {seconds(was_s)} in the baseline "
        f"({len(after)} and {len(before)} requests)"
    )


def _comparable(context: JudgeContext) -> Mask:
    """A mask of requests with comparable latency: probes, or all requests when no load has a period."""
    requests = context.history.requests
    probes = requests.load.among(*(each.id for each in context.plan.loads if each.probe))
    if probes.any() or any(each.period_s for each in context.plan.loads):
        return probes
    return np.ones(len(requests), dtype=bool)


def _asked_after(context: JudgeContext, start_ns: float, end_ns: float) -> int:
    requests = context.history.requests
    return int(np.count_nonzero((requests.intended_ns >= start_ns) & (requests.intended_ns <= end_ns)))


def _canaries(context: JudgeContext) -> Mask:
    return context.history.requests.kind.among("canary")


def slowest_s(context: JudgeContext, windows: Iterable[FaultWindow], mask: Mask) -> float | None:
    """The check metric `recovery` (s): the slowest first ok after a heal; infinite when one never came."""
    times = [first_ok_s(context, window, mask) for window in windows if window.heal_ns is not None]
    return max((np.inf if time is None else time for time in times), default=None)


def needs(plan: PlanView) -> Missing | None:
    return None if plan.faults else Missing("no fault is planned", "add a [[fault]]")


def judge(plan: PlanView) -> Judge:
    return Judge(NAME, decide, needs)
