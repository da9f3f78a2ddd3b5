"""Hang-ups of a target that keeps no journal, seen by its gauges of requests and its counter of generated tokens."""

import numpy as np

from assertions.context import JudgeContext, shown
from assertions.formatting import seconds
from assertions.idle_gauges import idle_level
from assertions.leavers import TO_COME, WASTED_MIN, WASTED_SHARE, Leaver
from assertions.rows import COUNTED, Floats, Samples
from assertions.verdict import Evidence, Judged, State
from assertions.windows import NS_PER_S

IN_A_ROW = 3
"""Samples in a row with too many requests from which on they are a breach."""
SLACK_TOKENS = 64.0
"""Tokens of requests that are not in the record: those that the harness sends to learn the target's dialect."""


def decide_from_outside(context: JudgeContext, name: str, limit: str, gone: list[Leaver]) -> Judged:
    """Judge the server's requests against the clients' at every sample, and its tokens against those that were read."""
    open_, why_open = context.history.summed_samples("server.running", "server.waiting")
    tokens, why_tokens = context.history.summed_samples("server.generation_tokens")
    figures = {"left": float(len(gone))}
    breaches: list[Evidence] = []
    words: list[str] = []
    if open_ is not None:
        breaches += _too_many(context, open_, figures)
        words.append(f"at most {figures['too_many_max']:g} requests more than clients had open")
    if tokens is not None:
        breaches += _unread(context, tokens, gone, figures)
        words.append(f"{figures['unread']:g} tokens that no client read")
    if breaches:
        first = min(breaches, key=lambda each: each.t_ns or 0)
        return Judged(
            name, State.FAIL, first.text, limit=limit, observed="; ".join(words), since_ns=first.t_ns,
            fault=context.blame.at(first.t_ns or 0), owner="server", evidence=shown(breaches), figures=figures,
        )  # fmt: skip
    if not words or context.cut_short:
        because = context.cut_short or f"{why_open}; {why_tokens}"
        cure = "give metrics with the requests that run and wait, or with generated tokens"
        return Judged(name, State.UNKNOWN, because, limit=limit, because=because, to_decide=cure, figures=figures)
    text = f"{len(gone)} clients left; {'; '.join(words)}"
    return Judged(name, State.PASS, text, limit=limit, observed="; ".join(words), figures=figures)


def _too_many(context: JudgeContext, samples: Samples, figures: dict[str, float]) -> list[Evidence]:
    """A breach when the server holds more requests than its clients have open or had open `within` before."""
    requests, within_ns = context.history.requests, context.plan.hang_up_within_s * NS_PER_S
    begun = np.sort(requests.sent_ns[requests.sent])
    over = np.sort(requests.end_ns[requests.sent & ~np.isnan(requests.end_ns)])

    def at_clients(t_ns: Floats, late_ns: float) -> Floats:
        came = np.searchsorted(begun, t_ns, side="right")
        return (came - np.searchsorted(over + late_ns, t_ns, side="left")).astype(np.float64)

    excess = samples.value - idle_level(context, samples) - at_clients(samples.t_ns, within_ns)
    figures["too_many_max"] = max(0.0, float(excess.max(initial=0.0)))
    run = 0
    for at, many in enumerate((excess > 0).tolist()):
        run = run + 1 if many else 0
        if run == IN_A_ROW:
            first = at - IN_A_ROW + 1
            t_ns, held = samples.t_ns[first], samples.value[first]
            theirs = at_clients(samples.t_ns[first : first + 1], 0.0)[0]
            text = (
                f"the server runs and queues {held:g} requests where clients have {theirs:g} open; the others left "
                f"more than {seconds(context.plan.hang_up_within_s)} before"
            )
            return [Evidence(int(t_ns), None, text)]
    return []


def _unread(context: JudgeContext, counter: Samples, gone: list[Leaver], figures: dict[str, float]) -> list[Evidence]:
    """A breach when most of the tokens were generated that clients which left had still to come."""
    requests = context.history.requests
    counted = requests.tokens_from.among(*COUNTED) & ~np.isnan(requests.output_tokens)
    read = np.where(counted, requests.output_tokens, np.nan_to_num(requests.chunks))
    rows = {one.row for one in gone}
    others = [row for row in np.flatnonzero(requests.sent & ~requests.ok).tolist() if row not in rows]
    # What a failed request generated is not known, so all that it asked for counts as read.
    asked = float(np.nansum(requests.output_tokens_max[others])) if others else 0.0
    generated = float(counter.value[-1] - counter.value[0])
    total = float(read[requests.sent].sum()) + asked
    figures |= {"generated": generated, "unread": max(0.0, generated - total)}
    open_then = [one for one in gone if one.asked - one.read >= TO_COME]
    to_come = sum(one.asked - one.read for one in open_then)
    if not counted[requests.ok].all() or len(open_then) < WASTED_MIN:
        return []
    if generated - total - SLACK_TOKENS <= WASTED_SHARE * to_come:
        return []
    text = (
        f"{generated:g} tokens were generated and {total:g} read: of the {to_come:g} that were to come for "
        f"{len(open_then)} clients when they left, most were generated for nobody"
    )
    return [Evidence(int(min(one.left_ns for one in open_then)), None, text)]
