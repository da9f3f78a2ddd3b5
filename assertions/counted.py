"""The values that counters and gauges may have at a rest, computed from the records of requests: a range for each.

The server's journal gives exact sums where a target keeps one. What the clients saw bounds every target's counters.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from assertions.context import JudgeContext
from assertions.rows import COUNTED, Served

SENT_BY_HARNESS = 4
"""Requests of the harness to a foreign target that no row tells: they learn its dialect."""
TOKENS_BY_HARNESS = 64.0
"""The most tokens, in or out, of these requests."""
ENDED_BY_SERVER = ("timeout", "http_error", "fatal")
"""Outcomes that the server may write for a request of which the engine says nothing any more."""
MEMORY_LAG_NS = 2_000_000_000
"""The age (ns) that a live server's figures of the prefix cache can have."""


@dataclass(frozen=True)
class Expected:
    """The values that a series may have, both ends included, and how they were counted."""

    low: float
    high: float
    how: str

    @property
    def text(self) -> str:
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"


def from_journal(context: JudgeContext, since_ns: float, t_ns: float) -> Iterator[tuple[str, Expected]]:
    """The sums over the server's journal from the start of its process until `t_ns`, by series."""
    rows = [row for row in context.history.served() if row.end_ns is not None and since_ns <= row.end_ns <= t_ns]
    asked = dict(zip(context.history.requests.id, context.history.requests.output_tokens_max.tolist(), strict=True))
    # The server ended these itself: their row has no tokens, and the engine may have counted some.
    blind = [row for row in rows if row.tokens_in and row.first_ns is None and row.outcome in ENDED_BY_SERVER]
    more_out = sum(asked.get(row.request or "", 0.0) for row in blind)
    more_in = float(sum(row.tokens_in or 0 for row in blind))
    yield "server.generation_tokens", _sum(rows, [row.tokens_out for row in rows], "tokens out", more_out)
    begun = [row.tokens_in for row in rows if row.first_ns is not None]
    yield "server.prompt_tokens", _sum(rows, begun, "tokens in of requests with a first token", more_in)
    if not blind:
        yield "server.preemptions", _sum(rows, [row.preempted for row in rows], "preemptions", 0.0)
        lag_ns = 0 if context.plan.drive == "virtual" else MEMORY_LAG_NS
        cached = [(row.end_ns or 0, row.tokens_cached or 0) for row in rows]
        low = float(sum(n for end_ns, n in cached if end_ns <= t_ns - lag_ns))
        yield "prefix.hits", Expected(low, float(sum(n for _, n in cached)), "tokens cached in the server's journal")
    for outcome, n in sorted(Counter(row.outcome for row in rows).items()):
        how = f"rows of the server's journal that ended {outcome}"
        yield f"server.ended[{outcome}]", Expected(n, n, how)


def _sum(rows: list[Served], values: list[int | None], what: str, more: float) -> Expected:
    total = float(sum(value or 0 for value in values))
    return Expected(total, total + more, f"{what} in {len(rows)} rows of the server's journal")


def from_clients(context: JudgeContext) -> Iterator[tuple[str, Expected]]:
    """The least and the most that counters may grow by from before the first request to the end, as clients saw it."""
    requests = context.history.requests
    ok, sent = requests.ok, requests.sent
    others = sent & ~ok
    tokens = requests.output_tokens[ok]
    if requests.tokens_from.among(*COUNTED)[ok].all() and not np.isnan(tokens).any():
        low = float(tokens.sum())
        high = low + float(np.nansum(requests.output_tokens_max[others])) + TOKENS_BY_HARNESS
        how = f"tokens that clients read in {int(ok.sum())} good answers, at most as many more as the others asked for"
        yield "server.generation_tokens", Expected(low, high, how)
    prompt = requests.prompt_tokens[ok]
    if not np.isnan(prompt).any():
        low = float(prompt.sum())
        # The planned length of a text is an estimate: a tokenizer of the target's own may need twice as many.
        high = low + 2 * float(np.nansum(requests.prompt_tokens_sent[others])) + TOKENS_BY_HARNESS
        yield "server.prompt_tokens", Expected(low, high, f"prompt tokens in the usage of {int(ok.sum())} good answers")
    good, all_sent = float(ok.sum()), float(sent.sum())
    how = f"{good:g} good answers among {all_sent:g} requests"
    yield "server.finished", Expected(good, all_sent + SENT_BY_HARNESS, how)
