"""Predicts from a plan how many requests a check will see, and which changes would give it enough.

A check needs requests that come with 99 % certainty. A planned check can therefore be decided when the run goes to
plan, and a check that may end UNKNOWN for want of requests is refused with its cure.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from assertions import stats
from assertions.context import MEASURED
from assertions.formatting import duration
from assertions.intervals import Interval, length
from assertions.latency import chosen_loads
from assertions.plan_view import Check, PlannedFault, PlannedLoad, PlanView
from assertions.planned_windows import load_intervals, phase_intervals, selected_intervals

GAPS_WINDOW_S = 10.0  # the histogram of gaps can only leave out whole windows of this length
LONGER_MAX = 64  # times the planned trial; a check that needs more needs another scenario
# A warm-up ends when its requests are completed: this share of its planned time earlier or later, and some seconds
# for its last replies.
WARMUP_SHARE, WARMUP_LATE_S, WARMUPS_TRIED = 0.1, 5.0, 16


@dataclass(frozen=True)
class ExpectedCount:
    """The number of values that a check will see: the mean, and the least with 99 % certainty."""

    mean: float
    least: int


def expected_count(plan: PlanView, check: Check, what: str) -> ExpectedCount | None:
    """The number of values that a check will see; None when the plan can't say.

    `what` is ttft, e2e, tpot or itl; other names count requests. Closed loops count with the most that they can reach.
    """
    names = chosen_loads(plan, check)
    loads = [load for load in plan.loads if names is None or load.id in names]
    if phase_intervals(plan, MEASURED) is None or not loads or any(load.rate_mean is None for load in loads):
        return None
    planned = _seen(plan, check, what, loads)
    others = [_seen(each, check, what, loads).least for each in _moved(plan)]
    return ExpectedCount(planned.mean, min([planned.least, *others]))


def _seen(plan: PlanView, check: Check, what: str, loads: list[PlannedLoad]) -> ExpectedCount:
    """The count for a plan whose phases begin exactly when planned."""
    where = "outside" if what == "errors.outside" else check.where
    here = selected_intervals(plan, where, ("trial",) if what == "throughput" else MEASURED)
    if what == "itl" and where == "outside" and plan.faults:
        here = [(start + GAPS_WINDOW_S, end - GAPS_WINDOW_S) for start, end in here if end - start > 2 * GAPS_WINDOW_S]
    here, loaded = load_intervals(plan, here), phase_intervals(plan, ("warmup", *MEASURED)) or []
    each = [_of_load(load, what, here, length(loaded)) for load in loads]
    mean, sure, variance = (sum(column) for column in zip(*each, strict=True))
    luck = stats.normal_quantile(1 - stats.ALPHA) * math.sqrt(variance)
    return ExpectedCount(mean, max(0, math.floor(sure - luck + 1e-9)))


def _moved(plan: PlanView) -> Iterator[PlanView]:
    """The plan with warm-ups that end a little earlier or later, because a trace does not wait for the warm-up."""
    warmup = next((phase for phase in plan.phases if phase.name == "warmup"), None)
    if warmup is None or not warmup.planned_s or all(load.arrival_counts is None for load in plan.loads):
        return
    early_s, late_s = WARMUP_SHARE * warmup.planned_s, WARMUP_SHARE * warmup.planned_s + WARMUP_LATE_S
    for number in range(WARMUPS_TRIED + 1):
        ends_s = warmup.planned_s - early_s + (early_s + late_s) * number / WARMUPS_TRIED
        phases = tuple(replace(phase, planned_s=ends_s) if phase is warmup else phase for phase in plan.phases)
        yield replace(plan, phases=phases)


def remedies(plan: PlanView, check: Check, what: str, floor: int) -> Iterator[str]:
    """Changes of the plan, each of which alone gives at least `floor` certain values. Each was tried on the plan."""

    def enough(plan: PlanView, check: Check = check) -> bool:
        seen = expected_count(plan, check, what)
        return seen is not None and seen.least >= floor

    if longer := _longer_trial(plan, enough):
        yield f"a trial of {longer}"
    recover_s = max((fault.expect.recover_s or 0.0 for fault in plan.faults), default=0.0)
    if check.where == "outside" and recover_s > 1:
        tried = (each for each in range(math.ceil(recover_s) - 1, 0, -1) if enough(_recovering(plan, each)))
        if (shorter := next(tried, None)) is not None:
            yield f'recover = "{shorter}s" for its faults'
    if check.where != "all" and enough(plan, replace(check, where="all")):
        yield 'where = "all"'


def _of_load(load: PlannedLoad, what: str, here: list[Interval], loaded_s: float) -> tuple[float, float, float]:
    """The (mean, certain, variance) of the values that one load brings in these intervals of its `loaded_s` seconds.

    A load with a changing rate certainly brings its lowest rate, and what its highest rate cannot have put into the
    remaining time. A trace is counted.
    """
    assert load.rate_mean is not None
    low = load.rate_mean if load.rate_min is None else load.rate_min
    high = max(load.rate_mean, load.rate_max or 0.0)
    share, here_s = _share(load, what), length(here)
    if load.arrival_counts is not None:
        mean = load.arrival_counts.among(here) * share
        return mean, load.arrival_counts.sure(here) * share, mean * max(1.0, share) if share != 1.0 else 0.0
    mean = load.rate_mean * here_s * share
    sure = max(low * here_s, load.rate_mean * loaded_s - high * (loaded_s - here_s)) * share
    # The gaps of one request come together, so the variance is that of requests.
    return mean, sure, mean * max(1.0, share) if load.by_chance or share != 1.0 else 0.0


def _share(load: PlannedLoad, what: str) -> float:
    """Values for each request. A request cancelled or malformed by plan has none; without a stream it has no ttft."""
    streamed = load.answered_share * load.stream_share
    match what:
        case "e2e":
            return load.answered_share
        case "ttft" | "tpot":
            return streamed
        case "itl":
            return streamed * max(0.0, (load.output_tokens or 2.0) - 1)
    return 1 - load.malformed_share


def _longer_trial(plan: PlanView, enough: Callable[[PlanView], bool]) -> str | None:
    """The shortest trial that is enough, as a scenario writes it; None when no length helps."""
    work = plan.trial_completed is not None
    planned = plan.trial_completed if work else plan.trial_s
    if not planned:
        return None
    short = math.floor(planned)
    long = next((short << n for n in range(1, LONGER_MAX.bit_length()) if enough(_lasting(plan, short << n))), None)
    if long is None:
        return None
    while long - short > 1:
        middle = (short + long) // 2
        short, long = (short, middle) if enough(_lasting(plan, middle)) else (middle, long)
    return f"{long} completed requests" if work else duration(long)


def _lasting(plan: PlanView, trial: int) -> PlanView:
    """The plan with a longer trial (seconds or completed requests); faults with `every` are armed until its end."""
    if plan.trial_completed is not None:
        longer = replace(plan, trial_completed=trial)
    else:
        last = max(at for at, phase in enumerate(plan.phases) if phase.name == "trial")
        more_s = trial - (plan.trial_s or 0.0)
        phases = tuple(
            replace(phase, planned_s=(phase.planned_s or 0.0) + more_s) if at == last else phase
            for at, phase in enumerate(plan.phases)
        )
        longer = replace(plan, phases=phases)
    intervals = phase_intervals(longer, ("trial", "quiesce")) or [(0.0, 0.0)]
    return replace(longer, faults=tuple(_again(plan.faults, intervals[-1][1] - intervals[0][0])))


def _again(faults: tuple[PlannedFault, ...], trial_s: float) -> Iterator[PlannedFault]:
    """The planned occurrences, and those that `every` adds until `trial_s`."""
    yield from faults
    for second in (fault for fault in faults if fault.n == 1 and fault.at_s is not None):
        each = [fault for fault in faults if fault.id == second.id]
        every_s = (second.at_s or 0.0) - (each[0].at_s or 0.0)
        at_s, n = (each[-1].at_s or 0.0) + every_s, each[-1].n + 1
        while every_s > 0 and at_s < trial_s:
            yield replace(second, n=n, at_s=at_s)
            at_s, n = at_s + every_s, n + 1


def _recovering(plan: PlanView, recover_s: float) -> PlanView:
    """The plan in which no fault has a `recover` longer than `recover_s`."""
    faults = tuple(
        replace(fault, expect=replace(fault.expect, recover_s=min(recover_s, fault.expect.recover_s or recover_s)))
        for fault in plan.faults
    )
    return replace(plan, faults=faults)
