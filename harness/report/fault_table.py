"""The table of faults in a report: plan, fires, symptom, affected requests and recovery of each occurrence."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assertions.context import JudgeContext
from assertions.history import FaultRow as RecordedFault
from assertions.history import Requests
from assertions.judges import fired
from assertions.judges.recovery import first_ok_s
from assertions.plan_view import PlannedFault, PlanView
from assertions.verdict import RunIdentity
from assertions.windows import NS_PER_S, SLACK_NS, FaultWindow, touched
from harness.report import figures
from harness.report.outcomes import GOOD
from harness.report.source import RunFiles


@dataclass(frozen=True)
class FaultTableRow:
    """One fault occurrence. A time is None when its event did not happen."""

    fault: str
    n: int
    do: str
    state: str  # as recorded; "never armed" when the plan has it and the history has not
    fired_min: int
    symptom_seen: str  # the observed symptom, as text
    arm_s: float | None = None
    first_s: float | None = None
    heal_s: float | None = None
    healed_by: str | None = None
    hits: int = 0
    fired: int = 0
    recovery: str = figures.MISSING
    requests_hit: int = 0  # distinct requests named by its fires
    fires_unnamed: int = 0  # fires that named no request
    collateral: int = 0  # requests with a bad outcome in its window that no fire named
    hit_sample: str | None = None  # one request that it hit

    @property
    def name(self) -> str:
        return f"{self.fault}#{self.n}"

    @property
    def proven(self) -> bool:
        return self.fired >= self.fired_min


def fault_rows(source: RunFiles) -> tuple[FaultTableRow, ...]:
    context = JudgeContext(source.history, _plan_view(source))
    planned = {(fault.id, fault.n): fault for fault in context.plan.faults}
    windows = {(window.row.id, window.row.n): window for window in context.windows}
    recorded = {(row["id"], row["n"]): str(row["spec"]) for row in source.rows("SELECT id, n, spec FROM fault")}
    rows = [
        _row(source, context, fault, planned.get((fault.id, fault.n)), windows.get((fault.id, fault.n)), recorded)
        for fault in sorted(source.history.faults, key=lambda fault: (fault.arm_ns or 0, fault.id, fault.n))
    ]
    rows += [
        FaultTableRow(plan.id, plan.n, plan.do, "never armed", plan.fired_min, "not looked for")
        for key, plan in planned.items()
        if key not in recorded
    ]
    return tuple(rows)


def _row(
    source: RunFiles,
    context: JudgeContext,
    fault: RecordedFault,
    plan: PlannedFault | None,
    window: FaultWindow | None,
    specs: Mapping[tuple[str, int], str],
) -> FaultTableRow:
    arm_s, first_s, heal_s = (
        None if ns is None else ns / NS_PER_S for ns in (fault.arm_ns, fault.first_ns, fault.heal_ns)
    )
    hit = {context.client_of.get(name, name) for fire in window.fires for name in fire.requests} if window else set()
    return FaultTableRow(
        fault=fault.id,
        n=fault.n,
        do=plan.do if plan else _do_of(specs[fault.id, fault.n]),
        state=fault.state or "?",
        arm_s=arm_s,
        first_s=first_s,
        heal_s=heal_s,
        healed_by=fault.healed_by,
        hits=fault.hits,
        fired=fault.fired,
        fired_min=fault.fired_min,
        symptom_seen=_symptom_seen(source, context, plan, window),
        recovery=_recovery(context, window),
        requests_hit=len(hit),
        fires_unnamed=sum(not fire.requests for fire in window.fires) if window else 0,
        collateral=_collateral(context.history.requests, hit, first_s, heal_s),
        hit_sample=min(hit, default=None),
    )


def _do_of(spec: str) -> str:
    """The `do` of a fault that the plan lacks, from the record of its arming."""
    try:
        return f"{json.loads(spec)['do']} (not in the plan)"
    except (ValueError, KeyError, TypeError):
        return "? (not in the plan)"


def _plan_view(source: RunFiles) -> PlanView:
    """The plan of the run. A lost plan gives an empty view, so that the history can be shown."""
    try:
        return PlanView.from_plan(source.plan)
    except (KeyError, TypeError, ValueError):
        lost = RunIdentity("?", 0, None, False, "?", "?", "")
        return PlanView(run=lost, drive="?", target_kind="?", capabilities=frozenset())


def _symptom_seen(
    source: RunFiles, context: JudgeContext, plan: PlannedFault | None, window: FaultWindow | None
) -> str:
    """The symptom that judge `fired` sees, with a count where it can be counted."""
    if plan is None or not plan.symptom:
        return "none declared"
    form, _, word = plan.symptom.partition(":")
    if window is None:
        return f"{word}: not seen"
    try:
        seen = fired.seen(context, window, plan.symptom)
    except ValueError as problem:
        return str(problem)
    if not seen:
        return f"{word}: not seen"
    if form == "mark":
        until_ns = window.end_ns + SLACK_NS
        query = "SELECT sum(n) FROM mark WHERE name = ? AND t_ns BETWEEN ? AND ?"
        return f"{word} × {source.rows(query, (word, window.first_ns, until_ns))[0][0]:,}"
    if form == "outcome":
        requests = context.history.requests
        return f"{word} × {int(np.count_nonzero(touched(requests, [window]) & requests.outcome.among(word))):,}"
    return f"{word}: seen"


def _recovery(context: JudgeContext, window: FaultWindow | None) -> str:
    """The time to the first ok reply of a request intended after the heal, as judge `recovery` measures it."""
    if window is None or window.heal_ns is None:
        return figures.MISSING
    within_s = first_ok_s(context, window, context.measured | context.history.requests.kind.among("canary"))
    return "no ok answer after it" if within_s is None else f"ok after {figures.seconds(within_s)}"


def _collateral(requests: Requests, hit: set[str], first_s: float | None, heal_s: float | None) -> int:
    """The number of bad outcomes in the fault's time that it did not name. Overlapping faults share them."""
    if first_s is None:
        return 0
    begin_s = np.where(requests.sent, requests.sent_ns, requests.intended_ns) / NS_PER_S
    never_ended = np.isnan(requests.end_ns) & requests.sent
    end_s = np.where(never_ended, np.inf, np.where(requests.sent, requests.end_ns / NS_PER_S, begin_s))
    alive = (begin_s <= (np.inf if heal_s is None else heal_s)) & (end_s >= first_s)
    return sum(requests.id[row] not in hit for row in np.flatnonzero(alive & ~requests.outcome.among(*GOOD)))
