"""Runs all judges: before a run it says which of them can decide, after a run it collects their results.

plan.json  -> PlanView           -> needs() -> planned | not judged, with the price | refused, with the cure
run.sqlite -> History + PlanView -> judge() -> Verdict
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from assertions.context import Judge, JudgeContext
from assertions.history import History
from assertions.judges import (
    alive,
    answered,
    check,
    deadline,
    drift,
    figures,
    fired,
    hang_ups,
    invariants,
    latency,
    leak,
    load,
    reclamation,
    recovery,
    tokens,
)
from assertions.plan_view import PlanView
from assertions.verdict import Judged, Level, State, Verdict, fold


class NeedState(StrEnum):
    PLANNED = "planned"
    NOT_JUDGED = "not_judged"  # a default judge that cannot decide: shown with its price, leaves the exit code alone
    REFUSED = "refused"  # the user's own check that cannot be decided: exit 4, with the cure


@dataclass(frozen=True)
class Need:
    """The answer of one judge before the run.

    `note` is printed beside a planned judge: the smallest budget that it can decide, or how many requests may break a
    limit.
    """

    judge: str
    level: Level
    state: NeedState
    because: str | None = None
    cure: str | None = None
    note: str | None = None

    @property
    def text(self) -> str:
        """`not judged: leak.rss_anon (8 periods needed, 3 planned: add 5m)`"""
        if self.state is NeedState.PLANNED:
            return f"{self.judge}" + (f" ({self.note})" if self.note else "")
        return f"{self.state.replace('_', ' ')}: {self.judge} ({self.because}: {self.cure})"


def judge(history: History, plan: PlanView) -> Verdict:
    """Judge one run. A late load generator voids the timing judges; a judge that crashes is UNKNOWN."""
    context = JudgeContext(history, plan)
    bench = judges_of(plan)
    said = [_unless_not_planned(plan, each) or _decide(each, context) for each in bench]
    breach = next((judged for judged in said if judged.name == load.NAME and judged.state is State.UNKNOWN), None)
    if breach is not None:
        said = [_voided(judged, breach) if each.timing else judged for each, judged in zip(bench, said, strict=True)]
    return Verdict(fold(said), tuple(said), plan.run)


def needs(plan: PlanView) -> list[Need]:
    """The answer of each judge to a plan, in the order of the report."""
    found = []
    for each in judges_of(plan):
        missing = each.needs(plan)
        if missing is None:
            found.append(Need(each.name, each.level, NeedState.PLANNED, note=each.note(plan)))
            continue
        refused = each.asked and each.level is Level.REQUIRED
        state = NeedState.REFUSED if refused else NeedState.NOT_JUDGED
        found.append(Need(each.name, each.level, state, missing.because, missing.cure))
    return found


def judges_of(plan: PlanView) -> list[Judge]:
    """All judges of a plan: exact ones, watched series, probes, and the checks of the scenario."""
    bench = [
        answered.judge(plan),
        hang_ups.judge(plan),
        alive.judge(plan),
        tokens.judge(plan),
        invariants.judge(plan),
        fired.judge(plan),
        reclamation.judge(plan),
        figures.judge(plan),
        recovery.judge(plan),
        load.judge(plan),
        latency.judge(plan),
    ]
    if plan.deadline_s is not None:
        bench.append(deadline.judge(plan))
    bench += [leak.judge(plan, series) for series in leak.OBSERVED]
    bench += [drift.judge(plan, each.id) for each in plan.loads if each.probe]
    bench += [check.judge(plan, each) for each in plan.checks]
    return list(_named_once(bench))


def _named_once(bench: Iterable[Judge]) -> Iterable[Judge]:
    """Make names unique, since they are keys in plan.json and JUnit: a check written twice gets a number."""
    seen: dict[str, int] = {}
    for each in bench:
        seen[each.name] = seen.get(each.name, 0) + 1
        yield each if seen[each.name] == 1 else replace(each, name=f"{each.name} ({seen[each.name]})")


def _unless_not_planned(plan: PlanView, each: Judge) -> Judged | None:
    """NOT_JUDGED when the plan says so, or when the plan does not name the judge and it cannot decide."""
    planned = plan.judges.get(each.name)
    if planned is not None:
        because, cure = planned.because, planned.cure
        absent = planned.state != NeedState.PLANNED
    else:
        missing = each.needs(plan)
        because, cure = (missing.because, missing.cure) if missing else (None, None)
        absent = missing is not None
    if not absent:
        return None
    text = f"not judged: {because}"
    return Judged(each.name, State.NOT_JUDGED, text, each.level, because=because, to_decide=cure)


def _decide(each: Judge, context: JudgeContext) -> Judged:
    try:
        return replace(each.decide(context), name=each.name, level=each.level)
    except Exception as error:  # the one place where a broad except is right: a crashed judge must not hide the others
        text = f"the judge crashed: {type(error).__name__}: {error}"
        cure = "report this run: a judge must not crash on any history"
        return Judged(each.name, State.UNKNOWN, text, each.level, because=text, to_decide=cure)


def _voided(judged: Judged, breach: Judged) -> Judged:
    """The result of a timing judge after a breach of the load: its figures stay, its state is UNKNOWN.

    A FAIL stands where the server itself kept arrivals out: those that are missing would have waited longest.
    """
    if judged.state is not State.PASS and (judged.state is not State.FAIL or breach.owner == "server"):
        return judged
    because = f"load: {breach.summary}"
    return replace(
        judged,
        state=State.UNKNOWN,
        summary=f"{judged.summary}; void, because the load broke its promise",
        because=because,
        to_decide=breach.to_decide,
    )
