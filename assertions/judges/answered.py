"""Judge answered: every request ended exactly once, with an allowed outcome, and client and server agree on it.

Allowed outcomes are `ok`, `cancelled` for a request that the plan cancels, a refusal of a malformed request, and for
the victims of a fault in its window the outcomes of its `expect`. A request that the injector named, and whose fault
does not allow `ok`, must not look finished.
"""

from collections.abc import Iterator

import numpy as np

from assertions.context import Judge, JudgeContext, shown
from assertions.outcome_pairs import Rule, rule_of
from assertions.plan_view import PlanView
from assertions.rows import COUNTED, UNFINISHED, Requests, Served
from assertions.verdict import Evidence, Judged, State
from assertions.windows import SLACK_NS, Victims, victims

NAME = "answered"


def decide(context: JudgeContext) -> Judged:
    requests = context.history.requests
    sent = int(np.count_nonzero(requests.sent))
    if sent == 0:
        return Judged(NAME, State.UNKNOWN, "no request was sent", because="no request was sent")
    breaches = [*_doubled(context), *_outcomes(context), *_journal(context)]
    unfinished = int(np.count_nonzero(requests.outcome.among(UNFINISHED)))
    figures = {"sent": sent, "ok": int(np.count_nonzero(requests.ok)), "unfinished": unfinished}
    figures["breaches"] = len(breaches)
    limit = "one terminal outcome for each request, allowed by the plan, equal at client and server"
    if breaches:
        first = min((e for e in breaches if e.t_ns is not None), key=lambda e: e.t_ns or 0, default=None)
        since = first.t_ns if first else None
        return Judged(
            NAME,
            State.FAIL,
            f"{len(breaches)} of {sent} requests broke the contract, the first: {(first or breaches[0]).text}",
            limit=limit,
            observed=f"{len(breaches)} breaches",
            smallest_visible="1 request",
            since_ns=since,
            fault=context.blame.of_request(first.request, since) if first and since is not None else None,
            evidence=shown(breaches),
            figures=figures,
        )
    agreement = (
        "client and server agree" if "ledger" in context.plan.capabilities else "only the client's record exists"
    )
    if (unfinished and context.cut_short) or context.damaged:
        text = f"{unfinished} of {sent} requests were unfinished when the run was cut short"
        return Judged(
            NAME,
            State.UNKNOWN,
            f"the record is damaged: {context.damaged}" if context.damaged else text,
            limit=limit,
            because=context.damaged or context.cut_short,
            to_decide="let the run drain",
            figures=figures,
        )
    return Judged(NAME, State.PASS, f"{sent} requests, one outcome each; {agreement}", limit=limit, figures=figures)


def _doubled(context: JudgeContext) -> Iterator[Evidence]:
    row_of, requests = context.history.requests.row_of, context.history.requests
    for request, count in context.history.doubled_replies():
        t_ns = requests.start_of(row_of[request]) if request in row_of else None
        yield Evidence(t_ns, request, f"{count} terminal outcomes for one request")
    for request, count in context.history.doubled_requests():
        yield Evidence(None, request, f"the id was sent {count} times")
    for request in context.history.orphan_replies():
        yield Evidence(None, request, "a reply to a request that nobody sent")


def _outcomes(context: JudgeContext) -> Iterator[Evidence]:
    requests = context.history.requests
    hurt = [(window, victims(window, requests, context.client_of)) for window in context.windows]
    for row in np.flatnonzero(~requests.ok & requests.sent).tolist():
        outcome = requests.outcome[row] or UNFINISHED
        if outcome == UNFINISHED and (context.cut_short or context.damaged):
            continue  # the run ended under it, or its line was lost
        if _planned(requests, row, outcome):
            continue
        if any(row in whom.rows and outcome in window.expect.outcomes for window, whom in hurt):
            continue
        near = next((window for window, whom in hurt if row in whom.rows), None)
        why = f"fault {near.name} allows {', '.join(sorted(near.expect.outcomes))}" if near else "no fault allows it"
        if requests.kind[row] == "malformed":
            why = "malformed on purpose, it must be refused with a 4xx"
        http = "" if np.isnan(requests.http[row]) else f" (HTTP {int(requests.http[row])})"
        yield Evidence(requests.start_of(row), requests.id[row], f"ended {outcome}{http}; {why}")
    for row in np.flatnonzero(requests.ok & requests.finish.among(None)).tolist():
        yield Evidence(requests.start_of(row), requests.id[row], "a clean 200 without a finish reason")
    over = requests.ok & (requests.output_tokens > requests.output_tokens_max)
    for row in np.flatnonzero(over).tolist():
        got, most = int(requests.output_tokens[row]), int(requests.output_tokens_max[row])
        yield Evidence(requests.start_of(row), requests.id[row], f"{got} tokens where at most {most} were asked for")
    yield from _looked_fine(requests, [(w.name, w.expect.outcomes, whom) for w, whom in hurt])


def _planned(requests: Requests, row: int, outcome: str) -> bool:
    if requests.kind[row] == "malformed":
        return outcome == "refused" or (outcome == "http_error" and 400 <= requests.http[row] < 500)
    return outcome == "cancelled" and requests.cancel_at[row] is not None


def _looked_fine(requests: Requests, hurt: list[tuple[str, frozenset[str], Victims]]) -> Iterator[Evidence]:
    for row in sorted({row for _, outcomes, whom in hurt if "ok" not in outcomes for row in whom.named}):
        if requests.ok[row]:
            names = ", ".join(name for name, _, whom in hurt if row in whom.named)
            yield Evidence(requests.start_of(row), requests.id[row], f"was hit by {names} and yet looked finished")


def _journal(context: JudgeContext) -> Iterator[Evidence]:
    """Compare with the server's journal: it has one row, with the same outcome, for each request that got a reply."""
    if "ledger" not in context.plan.capabilities:
        return
    requests = context.history.requests
    rows: dict[str, list[Served]] = {}
    for served in context.history.served():
        if served.request is not None:
            rows.setdefault(served.request, []).append(served)
    for request, found in rows.items():
        if len(found) > 1:
            yield Evidence(found[1].end_ns, request, f"{len(found)} rows in the server's journal")
        if request not in requests.row_of:
            if not _load_died(context) and not context.damaged:
                yield Evidence(found[0].end_ns, request, "served by the server, but nobody sent it")
            continue
        row = requests.row_of[request]
        if difference := _difference(context, row, found[0]):
            yield Evidence(requests.start_of(row), request, difference)
    if context.damaged:
        return  # a row that is not there may have been one of those that were lost
    # A reply head proves that the server had the request. Without one it may never have arrived.
    answered = requests.sent & ~np.isnan(requests.http) & ~requests.kind.among("malformed")
    for row in np.flatnonzero(answered & ~requests.outcome.among(UNFINISHED)).tolist():
        if requests.id[row] in rows:
            continue
        start, end = requests.start_of(row), requests.end_ns[row]
        if _server_died(context, row) or _ended_last(context, end):
            continue  # the journal's line was lost with the process; `alive` judges the death
        yield Evidence(start, requests.id[row], f"ended {requests.outcome[row]}, but the server's journal has no row")


def _difference(context: JudgeContext, row: int, served: Served) -> str | None:
    """The difference between client and server by the rule of their two outcomes, or None."""
    requests, theirs = context.history.requests, str(served.outcome)
    ours = requests.outcome[row] or UNFINISHED
    contradiction = f"the client saw {ours}, the server wrote {theirs}"
    match rule_of(ours, theirs):
        case Rule.SAME if ours == "ok":
            return _answers_differ(requests, row, served)
        case Rule.BROKEN:
            return None if _server_died(context, row) else f"{contradiction}: a part of a whole answer arrived"
        case Rule.LEFT_ONLY:
            return contradiction if np.isnan(requests.cancel_ns[row]) else None
        case Rule.SAME | Rule.AGREE | Rule.LEFT | Rule.OPEN:
            return None
        case Rule.LIE:
            return contradiction
        case None:
            return f"{contradiction}: these words are no pair of outcomes"


def _answers_differ(requests: Requests, row: int, served: Served) -> str | None:
    """The difference between two records of one good answer, or None."""
    if differ := _tokens_differ(requests, row, served):
        return differ
    if served.finish is not None and served.finish != requests.finish[row]:
        return f"the client read finish {requests.finish[row]}, the server wrote {served.finish}"
    return None


def _tokens_differ(requests: Requests, row: int, served: Served) -> str | None:
    """Compare token counts of client and server.

    `usage` comes from the server, so it only catches a server that contradicts itself. Counts of the client are better
    evidence: token ids, tokens with log probabilities, or events with text. A token makes at most one event; half a
    character or a held-back stop string makes none.
    """
    out, words = served.tokens_out, requests.tokens_from[row]
    counted = None if np.isnan(requests.output_tokens[row]) else int(requests.output_tokens[row])
    events = 0 if np.isnan(requests.chunks[row]) else int(requests.chunks[row])
    if out is None:
        return None
    if words in COUNTED:
        if counted is not None and counted != out:
            return f"the client counted {counted} tokens, the server {out}"
    elif out:
        # Our load asks for usage, and only our own runtime keeps a journal: it always sends usage.
        return f"ended without the usage that was asked for, after {events} events with text; the server wrote {out}"
    if events > out:
        return f"the client read {events} events with text, the server wrote only {out} tokens"
    return None


def _server_died(context: JudgeContext, row: int) -> bool:
    """True when the server ended while the request was open, or just after."""
    requests = context.history.requests
    start, end = requests.start_of(row), requests.end_ns[row]
    deaths = (e.t_ns for e in context.history.events if e.kind == "exit" and e.proc.startswith("server"))
    return any(start <= death <= end + SLACK_NS for death in deaths)


def _load_died(context: JudgeContext) -> bool:
    return any(e.kind == "exit" and e.proc == "load" and e.value not in (0, None) for e in context.history.events)


def _ended_last(context: JudgeContext, end_ns: float) -> bool:
    """True for a request that ended in the last moments of a killed run, whose last lines may be lost."""
    return context.cut_short is not None and end_ns >= context.history.end_ns - SLACK_NS


def judge(plan: PlanView) -> Judge:
    return Judge(NAME, decide)
