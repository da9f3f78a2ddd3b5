"""Judge hang_ups: what a client ended, by a cancel or by its own timeout, the server ends too, and soon.

From the server's journal (tables served and hang_up) of each request whose client left:

    client leaves ---- server sees it ---- the engine ends the request: no row in the batch, no place in the queue
        |-------------------- at most `hang_up.within` -----------------|
                             |----- at most `hang_up.tokens` tokens ----|

A server that ended a request before it could see the hang-up is right to call it ok. Over a network a single request
does not tell that from a server that never looks, but most of many do: see `_wasted`. In virtual time it is exact.
Targets without a journal are judged by their gauges and their token counter (`assertions/hang_ups_outside.py`).
"""

from functools import partial

import numpy as np

from assertions.context import Judge, JudgeContext, Missing, shown
from assertions.formatting import seconds
from assertions.hang_ups_outside import decide_from_outside
from assertions.leavers import TO_COME, WASTED_MIN, WASTED_SHARE, Leaver, leavers
from assertions.plan_view import PlanView
from assertions.verdict import Evidence, Judged, State
from assertions.windows import NS_PER_S

NAME = "hang_ups"
EXPECTED_MIN = 10.0
"""Planned cancels from which on a run without any is unknown; of fewer there can be none by chance."""


def decide(context: JudgeContext) -> Judged:
    gone = list(leavers(context))
    limit = f"ended within {seconds(context.plan.hang_up_within_s)} of the hang-up"
    if "ledger" in context.plan.capabilities:
        limit += f", and at most {context.plan.hang_up_tokens} tokens after the server saw it"
    if not gone:
        return _nobody_left(context, limit)
    if "ledger" not in context.plan.capabilities:
        return decide_from_outside(context, NAME, limit, gone)
    breaches = [breach for one in gone if (breach := _breach(context, one)) is not None]
    known = [one for one in gone if one.end_ns is not None]
    figures = {"left": float(len(gone)), "known": float(len(known))} | _figures(known)
    breaches += _wasted(known)
    if breaches:
        first = min(breaches, key=lambda each: each.t_ns or 0)
        return Judged(
            NAME,
            State.FAIL,
            f"{len(breaches)} of {len(gone)} hang-ups did not end their request, the first: {first.text}",
            limit=limit,
            observed=f"{figures['unread']:g} tokens that no client read, at most {figures['after_s_max']:.3g} s",
            smallest_visible="1 request",
            since_ns=first.t_ns,
            fault=context.blame.of_request(first.request, first.t_ns or 0),
            owner=first.request,
            evidence=shown(breaches),
            figures=figures,
        )
    if not known:
        because = f"the server's journal has no row of the {len(gone)} requests whose client left"
        return Judged(NAME, State.UNKNOWN, because, limit=limit, because=because, figures=figures)
    text = (
        f"{len(known)} clients left, each request ended at most {seconds(figures['after_s_max'])} later; "
        f"{figures['unread']:g} tokens that no client read"
    )
    return Judged(NAME, State.PASS, text, limit=limit, observed=text, figures=figures)


def _breach(context: JudgeContext, one: Leaver) -> Evidence | None:
    """The work that the server did for a client that had left, where it is more than it may; None otherwise."""
    end_ns, tokens_max = one.end_ns, context.plan.hang_up_tokens
    if end_ns is None:
        return None  # judge answered: it may never have come to the server, or its row is missing
    found = partial(Evidence, int(one.left_ns), one.id)
    after_s, seen = (end_ns - one.left_ns) / NS_PER_S, one.hang_up
    went_on = f"{after_s:.3f} s after its client had left"
    if seen is not None and one.served is not None and one.served.outcome == "ok":
        return found(f"the server saw the client leave ({seen.why}) and wrote ok")
    if seen is not None and seen.tokens - seen.tokens_seen > tokens_max:
        more = seen.tokens - seen.tokens_seen
        return found(f"{more} tokens were generated after the server saw that its client had left, {tokens_max} may be")
    exact_s = 0.0 if context.plan.drive == "virtual" else context.plan.hang_up_within_s
    if one.to_its_end and after_s > exact_s:
        how = "never saw it" if seen is None else f"saw it {(seen.t_ns - one.left_ns) / NS_PER_S:.3f} s late"
        return found(f"its answer was generated to its end ({one.generated or 0:g} tokens) {went_on}; the server {how}")
    # While a fault holds the engine, its mail waits too.
    if after_s > context.plan.hang_up_within_s and not context.touched[one.row]:
        how = "never saw it" if seen is None else f"seen {(seen.t_ns - one.left_ns) / NS_PER_S:.3f} s late"
        return found(f"it was ended {went_on} ({how})")
    return None


def _wasted(known: list[Leaver]) -> list[Evidence]:
    """One breach when most answers were generated to their end for clients that had left before.

    A healthy server sees a hang-up within a turn of its event loop. Only requests that it had not ended yet, and that
    had tokens to come, can show that it looks.
    """
    open_then = [one for one in known if (one.end_ns or 0) > one.left_ns and one.asked - one.read >= TO_COME]
    ignored = [one for one in open_then if one.to_its_end]
    if len(open_then) < WASTED_MIN or len(ignored) <= WASTED_SHARE * len(open_then):
        return []
    first = ignored[0]
    tokens = sum((one.generated or 0) - one.read for one in ignored)
    text = (
        f"{len(ignored)} of {len(open_then)} answers were generated to their end after their clients had left: "
        f"{tokens:g} tokens for nobody"
    )
    return [Evidence(int(first.left_ns), first.id, text)]


def _figures(known: list[Leaver]) -> dict[str, float]:
    """The longest and the middle time from a hang-up to the end of its request, and tokens that no client read."""
    after_s = [max(0.0, ((one.end_ns or 0) - one.left_ns) / NS_PER_S) for one in known] or [0.0]
    return {
        "after_s_max": max(after_s),
        "after_s_p50": float(np.median(after_s)),
        "unread": sum(max(0.0, (one.generated or 0) - one.read) for one in known),
        "ignored": float(sum(1 for one in known if one.to_its_end and (one.end_ns or 0) > one.left_ns)),
    }


def _nobody_left(context: JudgeContext, limit: str) -> Judged:
    """A run in which no client left: unknown when many were planned to, else there is nothing to judge."""
    because = "no client left before the end of its answer"
    planned = sum((load.arrivals_planned or 0) * load.cancelled_share for load in context.plan.loads)
    if planned >= EXPECTED_MIN:
        return Judged(NAME, State.UNKNOWN, because, limit=limit, because=f"{because}, though {planned:.0f} should have")
    return Judged(NAME, State.NOT_JUDGED, because, limit=limit, because=because)


def needs(plan: PlanView) -> Missing | None:
    if plan.capabilities & {"ledger", "metrics"}:
        return None
    return Missing("the target shows neither a journal nor metrics", "give target.metrics, or --metrics URL")


def note(plan: PlanView) -> str | None:
    """The limits, where clients are planned to leave."""
    share = max((load.cancelled_share for load in plan.loads), default=0.0)
    if not share:
        return None
    tokens = f" and at most {plan.hang_up_tokens} tokens after it is seen" if "ledger" in plan.capabilities else ""
    return f"up to {share:.0%} of a load hangs up; the server has {seconds(plan.hang_up_within_s)}{tokens}"


def judge(plan: PlanView) -> Judge:
    return Judge(NAME, decide, needs, note=note)
