"""Judge fired: every planned fault fired and showed its symptom; otherwise the result is UNKNOWN.

Each occurrence needs two pieces of evidence: the injector's count of fires, and the symptom, which is counted by a part
that does not know the injector. Marks that the scenario requires are a third. This judge never says FAIL, since only
evidence is missing.
"""

from collections.abc import Callable

import numpy as np

from assertions.context import Judge, JudgeContext, shown
from assertions.plan_view import PlannedFault, PlanView
from assertions.rows import UNFINISHED, FaultRow
from assertions.verdict import Evidence, Judged, State
from assertions.windows import SLACK_NS, FaultWindow, touched

NAME = "fired"
LATE_TIMES = 3.0  # a reply is "late" when it takes this many times the median before the fault


def decide(context: JudgeContext) -> Judged:
    planned = context.plan.faults
    if not planned:
        return Judged(NAME, State.PASS, "no fault was planned")
    rows = {(row.id, row.n): row for row in context.history.faults}
    windows = {(window.row.id, window.row.n): window for window in context.windows}
    missing = []
    for fault in planned:
        row, window = rows.get((fault.id, fault.n)), windows.get((fault.id, fault.n))
        if doubt := _doubt(context, fault, row, window):
            missing.append(Evidence(row.arm_ns if row else None, None, f"{fault.name} ({fault.do}): {doubt}"))
    fired = sum(rows[key].fired for key in rows)
    figures = {"planned": len(planned), "proven": len(planned) - len(missing), "fires": fired}
    limit = "each occurrence fired at least fired_min times, and its symptom was seen"
    observed = f"{len(planned) - len(missing)} of {len(planned)} proven"
    if missing:
        return Judged(
            NAME,
            State.UNKNOWN,
            f"{len(missing)} of {len(planned)} faults are not proven, the first: {missing[0].text}",
            limit=limit,
            observed=observed,
            fault=missing[0].text.split(" ", 1)[0],
            evidence=shown(missing),
            because=context.cut_short or missing[0].text,
            to_decide="more matching traffic after arming, a wider scope, or a longer trial",
            figures=figures,
        )
    text = f"{len(planned)} faults fired {fired} times and showed their symptoms"
    return Judged(NAME, State.PASS, text, limit=limit, observed=observed, figures=figures)


def _doubt(context: JudgeContext, fault: PlannedFault, row: FaultRow | None, window: FaultWindow | None) -> str | None:
    if row is None or row.arm_ns is None:
        return "was never armed"
    if window is None or row.fired < fault.fired_min:
        return f"fired {row.fired} times, at least {fault.fired_min} were wanted"
    if not fault.symptom:
        return f"fired {row.fired} times, but the action declares no symptom, so nobody else can confirm it"
    if not seen(context, window, fault.symptom):
        return f"fired {row.fired} times, but its symptom ({fault.symptom}) was not seen: one half only"
    unseen = [mark for mark in fault.expect.marks if not _mark(context, window, mark)]
    if unseen:
        return f"showed its symptom, but did not lead to {', '.join(unseen)}"
    return None


def seen(context: JudgeContext, window: FaultWindow, symptom: str) -> bool:
    """True when the window shows the symptom.

    Forms are "mark:NAME", "outcome:WORD", "audit:leak", "reply:WORD", "event:KIND" and "canary:STATE". Raises
    ValueError for an unknown form, which makes the judge UNKNOWN.
    """
    form, _, word = symptom.partition(":")
    ways: dict[str, Callable[[JudgeContext, FaultWindow, str], bool]] = {
        "mark": _mark,
        "outcome": _outcome,
        "audit": _audit,
        "reply": _reply,
        "event": _event,
        "canary": _canary,
    }
    if form not in ways or not word:
        raise ValueError(f'symptom "{symptom}": known forms are {", ".join(f"{way}:..." for way in ways)}')
    return ways[form](context, window, word)


def _mark(context: JudgeContext, window: FaultWindow, name: str) -> bool:
    times = context.history.marks.get(name, np.zeros(0))
    return bool(np.any((times >= window.first_ns) & (times <= window.end_ns + SLACK_NS)))


def _outcome(context: JudgeContext, window: FaultWindow, word: str) -> bool:
    requests = context.history.requests
    return bool(np.any(touched(requests, [window]) & requests.outcome.among(word)))


def _audit(context: JudgeContext, window: FaultWindow, word: str) -> bool:
    """True when an audit after the first fire found more than expected.

    The word "leak" selects live and limbo rows; any other word is the name or kind of the audited quantity.
    """
    return any(
        audit.t_ns >= window.first_ns
        and audit.value is not None
        and audit.value > (audit.expected or 0)
        and (audit.kind in ("live", "limbo") if word == "leak" else word in (audit.name, audit.kind))
        for audit in context.history.audits
    )


def _reply(context: JudgeContext, window: FaultWindow, word: str) -> bool:
    """True when a request of the window ended as `word` says.

    "late" is a reply far slower than before the fault, "error" any bad end; other words are a finish reason or outcome.
    """
    requests = context.history.requests
    living = touched(requests, [window]) & requests.sent
    if word == "error":
        return bool(np.any(living & ~requests.ok & ~requests.outcome.among(UNFINISHED, "cancelled")))
    if word != "late":
        return bool(np.any(living & (requests.finish.among(word) | requests.outcome.among(word))))
    times = requests.end_ns - requests.sent_ns
    before = times[requests.ok & (requests.end_ns < window.first_ns)]
    late = times[living & (requests.end_ns >= window.first_ns)]
    return bool(len(before) and np.any(late > LATE_TIMES * np.median(before)))


def _event(context: JudgeContext, window: FaultWindow, kind: str) -> bool:
    return any(event.kind == kind and context.shown_by(window, event) for event in context.history.events)


def _canary(context: JudgeContext, window: FaultWindow, state: str) -> bool:
    requests = context.history.requests
    living = touched(requests, [window])
    rows = (requests.row_of.get(row.request) for row in context.history.canaries if row.state == state)
    return any(row is not None and living[row] for row in rows)


def judge(plan: PlanView) -> Judge:
    return Judge(NAME, decide)
