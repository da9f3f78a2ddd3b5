"""Judge invariants: the checks that the runtime makes at each step (conservation, ownership, KV tags) always held.

Breaches are `invariant` events of checkers that do not know the injector. A breach is expected only in the window of a
fault whose symptom is `event:invariant`, or later when it names a request that this fault hit. The checkers use the
server's request ids; evidence uses the clients' ids, so that requests can be looked up.
"""

from assertions.context import Judge, JudgeContext, Missing, shown
from assertions.formatting import some
from assertions.plan_view import PlanView
from assertions.rows import Event
from assertions.verdict import Judged, State

NAME = "invariants"
KIND = "invariant"


def decide(context: JudgeContext) -> Judged:
    breaches = [event for event in context.history.events if event.kind == KIND]
    open_ones = [event for event in breaches if not _expected(context, event)]
    limit = "no breach outside a fault that declares one"
    figures = {"breaches": float(len(open_ones)), "expected": float(len(breaches) - len(open_ones))}
    if open_ones:
        first = open_ones[0]
        evidence = [context.evidence_of(event) for event in open_ones]
        owners = sorted({each.request for each in evidence if each.request is not None})
        return Judged(
            NAME,
            State.FAIL,
            f"{len(open_ones)} breaches, the first: {evidence[0].text}",
            limit=limit,
            observed=f"{len(open_ones)} breaches",
            smallest_visible="1 breach",
            since_ns=first.t_ns,
            fault=context.blame.of_request(evidence[0].request, first.t_ns, values=True),
            owner=some(owners) if owners else first.proc or None,
            evidence=shown(evidence),
            figures=figures,
        )
    reported = next(context.history.served(), None) is not None or bool(context.history.audits)
    if not reported:
        because = "the server wrote neither a journal row nor an audit, so its checks may not have run"
        return Judged(NAME, State.UNKNOWN, because, limit=limit, because=because, figures=figures)
    return Judged(NAME, State.PASS, "no breach", limit=limit, figures=figures)


def _expected(context: JudgeContext, event: Event) -> bool:
    return any(
        window.planned.symptom == f"event:{KIND}" and context.shown_by(window, event) for window in context.windows
    )


def needs(plan: PlanView) -> Missing | None:
    if "arm" in plan.capabilities or "kv_live" in plan.capabilities:
        return None
    return Missing("the target does not report its invariants", "run the builtin target")


def judge(plan: PlanView) -> Judge:
    return Judge(NAME, decide, needs)
