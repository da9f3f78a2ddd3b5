"""Judge deadline: no request outlives the server's request timeout by more than GRACE_S, whatever hangs.

The judge is planned where the scenario sets that timeout (`target.knobs.request_timeout_s`) and a client waits longer
than it. A client that leaves first can't see whether the server would have answered.
"""

import numpy as np

from assertions.context import Judge, JudgeContext, Missing, shown
from assertions.plan_view import PlanView
from assertions.verdict import Evidence, Judged, State
from assertions.windows import NS_PER_S

NAME = "deadline"
GRACE_S = 1.0
"""Seconds from the deadline to the last byte at the client: a guard tick, a busy event loop, the network."""


def decide(context: JudgeContext) -> Judged:
    assert context.plan.deadline_s is not None, "not planned without a deadline"
    bound_s = context.plan.deadline_s + GRACE_S
    requests = context.history.requests
    took_s = (requests.end_ns - requests.sent_ns) / NS_PER_S
    patient = requests.load.among(*(load.id for load in context.plan.loads if _waits(load.timeout_s, bound_s)))
    answered = requests.sent & patient & ~np.isnan(took_s) & ~requests.outcome.among("unfinished")
    late = np.flatnonzero(answered & (took_s > bound_s))
    limit = f"ended within {bound_s:g} s: the deadline of {context.plan.deadline_s:g} s and {GRACE_S:g} s"
    slowest_s = float(took_s[answered].max()) if answered.any() else 0.0
    figures = {"late": float(len(late)), "slowest_s": slowest_s}
    if len(late):
        first = int(late[0])
        since_ns = requests.start_of(first)
        text = f"{len(late)} requests outlived their deadline, the first by {took_s[first] - bound_s + GRACE_S:.2f} s"
        return Judged(
            NAME,
            State.FAIL,
            text,
            limit=limit,
            observed=f"{slowest_s:.2f} s at most",
            since_ns=since_ns,
            fault=context.blame.of_request(requests.id[first], since_ns),
            owner=requests.id[first],
            evidence=shown([_evidence(context, row, float(took_s[row])) for row in late.tolist()]),
            figures=figures,
        )
    if not answered.any():
        because = "no request of a client that waits longer than the deadline was ever answered"
        return Judged(NAME, State.UNKNOWN, because, limit=limit, because=because, figures=figures)
    return Judged(NAME, State.PASS, f"the slowest took {slowest_s:.2f} s", limit=limit, figures=figures)


def needs(plan: PlanView) -> Missing | None:
    assert plan.deadline_s is not None
    bound_s = plan.deadline_s + GRACE_S
    if any(_waits(load.timeout_s, bound_s) for load in plan.loads):
        return None
    return Missing(
        f"every client leaves before {bound_s:g} s",
        f'a load with timeout = "{bound_s + GRACE_S:g}s", or a smaller target.knobs.request_timeout_s',
    )


def _waits(timeout_s: float | None, bound_s: float) -> bool:
    return timeout_s is None or timeout_s > bound_s


def _evidence(context: JudgeContext, row: int, took_s: float) -> Evidence:
    requests = context.history.requests
    return Evidence(requests.start_of(row), requests.id[row], f"took {took_s:.2f} s and ended {requests.outcome[row]}")


def judge(plan: PlanView) -> Judge:
    return Judge(NAME, decide, needs)
