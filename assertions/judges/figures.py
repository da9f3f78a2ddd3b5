"""Judge figures: the gauges and counters that the target shows are true.

At each rest (a quiesce that came to rest, the drain) gauges equal the audit, and counters equal the sums over the
server's journal. Over the run counters never go back but at a restart, their growth lies between what clients saw and
what they asked for, and a gauge that stays at zero under load is stuck.

    what clients read, the journal, the audit  ->  Expected  <-- compared -->  the last sample in the rest
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from assertions.context import Judge, JudgeContext, Missing, shown
from assertions.counted import Expected, from_clients, from_journal
from assertions.idle_gauges import IdlePeriod, idle_periods
from assertions.plan_view import PlanView
from assertions.rows import Audit, Samples
from assertions.verdict import Evidence, Judged, State

NAME = "figures"
LIMIT = "gauges equal the audit at rest, counters the sums over the requests, and counters never go back"
AT_REST = ("server.running", "server.waiting", "server.open_requests", "kv.usage", "kv.live_blocks", "kv.limbo_blocks")
"""Gauges that are 0 when the audit finds nothing that is held."""
EMPTY = ("requests.open", "kv_blocks.live", "kv_blocks.limbo", "tickets.in_flight")
"""Totals of an audit that are 0 at a rest."""
FINISHED = ("server.finished[stop]", "server.finished[length]")
OF_TARGET = ("server.", "kv.", "prefix.", "pool.")
"""Beginnings of the names of series that the target itself shows."""
STUCK_SAMPLES = 3
BUSY_NS = 1_500_000_000
"""A sample shows the target at some time in so many ns after its time stamp."""
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Wrong:
    """One series that is not what it must be."""

    series: str
    t_ns: int
    text: str


def decide(context: JudgeContext) -> Judged:
    compared: set[str] = set()
    wrong = [*_backwards(context, compared)]
    for rest in idle_periods(context):
        wrong += _at_rest(context, rest, compared)
    wrong += [*_against_clients(context, compared), *_stuck(context, compared)]
    figures = {"compared": float(len(compared)), "wrong": float(len({each.series for each in wrong}))}
    if wrong:
        first = min(wrong, key=lambda each: each.t_ns)
        names = sorted({each.series for each in wrong})
        return Judged(
            NAME,
            State.FAIL,
            first.text,
            limit=LIMIT,
            observed=f"wrong: {', '.join(names)}",
            smallest_visible="1",
            since_ns=first.t_ns,
            fault=context.blame.at(first.t_ns),
            owner=first.series,
            evidence=shown([Evidence(each.t_ns, None, each.text) for each in wrong]),
            figures=figures,
        )
    if not compared:
        because = context.cut_short or "no series of the target could be compared with anything"
        cure = "let the run come to a rest, and give metrics that are known"
        return Judged(NAME, State.UNKNOWN, because, limit=LIMIT, because=because, to_decide=cure, figures=figures)
    text = f"{len(compared)} figures are true: {', '.join(sorted(compared))}"
    return Judged(NAME, State.PASS, text, limit=LIMIT, figures=figures)


# -- counters over the run ---------------------------------------------------------------------------------------------


def _restarts(context: JudgeContext) -> list[float]:
    """The times (ns) at which a process of the server began."""
    starts = [float(e.t_ns) for e in context.history.events if e.kind == "start" and e.proc.startswith("server")]
    return starts + [float(phase.start_ns) for phase in context.history.phases if phase.name == "restart"]


def _backwards(context: JudgeContext, compared: set[str]) -> Iterator[Wrong]:
    """Counters that fell though no process began. When all fall at once, a process that we did not start began."""
    falls: dict[int, list[tuple[str, float, float]]] = {}
    seen: dict[int, int] = {}
    restarts = np.array(sorted(_restarts(context)))
    for name in context.history.counters:
        samples = context.history.samples(name)
        if not name.startswith(OF_TARGET) or samples is None or len(samples.value) < 2:
            continue
        compared.add(name)
        began = np.searchsorted(restarts, samples.t_ns)
        for at in range(1, len(samples.value)):
            before, after = float(samples.value[at - 1]), float(samples.value[at])
            seen[int(samples.t_ns[at])] = seen.get(int(samples.t_ns[at]), 0) + (before > 0)
            if after < before and began[at] == began[at - 1]:
                falls.setdefault(int(samples.t_ns[at]), []).append((name, before, after))
    for t_ns, fell in falls.items():
        if len(fell) > 1 and len(fell) == seen[t_ns]:
            continue
        for name, before, after in fell:
            yield Wrong(name, t_ns, f"{name} is a counter and fell from {before:g} to {after:g} with no restart")


def _against_clients(context: JudgeContext, compared: set[str]) -> Iterator[Wrong]:
    """Counters whose growth over the run is less than clients saw, or more than they asked for."""
    requests, ends = context.history.requests, context.intervals("drain")
    if not ends or context.cut_short or not requests.sent.any() or _restarted(context):
        return
    first_ns, preempted = float(np.nanmin(requests.sent_ns)), context.history.samples("server.preemptions")
    for name, expected in from_clients(context):
        parts = [one for each in (FINISHED if name == "server.finished" else (name,)) if (one := _of(context, each))]
        if not parts or (name == "server.prompt_tokens" and preempted is not None and preempted.value.max(initial=0)):
            continue  # a prompt that is computed again may be counted again
        least, most, t_ns = 0.0, 0.0, 0
        for samples in parts:
            late = np.flatnonzero(samples.t_ns <= ends[-1][1])
            if not len(late):
                break
            # A sample that is stamped shortly before the first request may show its tokens already. A series that
            # begins later began at 0: some servers show a counter only after its first event.
            least += float(samples.value[late[-1]]) - _last_before(samples, first_ns)
            most += float(samples.value[late[-1]]) - _last_before(samples, first_ns - BUSY_NS)
            t_ns = max(t_ns, int(samples.t_ns[late[-1]]))
        if t_ns < ends[-1][0]:
            continue
        compared.add(name)
        yield from _unless(name, max(least, min(most, expected.low)), expected, t_ns, "grew by")


def _last_before(samples: Samples, t_ns: float) -> float:
    """The value of the last sample stamped before `t_ns`; 0 when there is none."""
    before = samples.value[samples.t_ns < t_ns]
    return float(before[-1]) if len(before) else 0.0


def _restarted(context: JudgeContext) -> bool:
    return len(_restarts(context)) > 1 or any(phase.name == "restart" for phase in context.history.phases)


# -- one rest ----------------------------------------------------------------------------------------------------------


def _at_rest(context: JudgeContext, rest: IdlePeriod, compared: set[str]) -> Iterator[Wrong]:
    """Figures of a target with a journal and audits, at a time when nothing moves."""
    if "ledger" not in context.plan.capabilities or context.damaged:
        return
    end_ns = next(end for start, end in context.intervals(rest.name) if start == rest.start_ns)
    served_ns = [row.end_ns for row in context.history.served() if row.end_ns is not None and row.end_ns <= end_ns]
    replied = context.history.requests.end_ns
    still_ns = max(float(rest.start_ns), *map(float, served_ns), float(replied[replied <= end_ns].max(initial=0)))
    since_ns = max((t_ns for t_ns in _restarts(context) if t_ns <= still_ns), default=0.0)
    audit = {each.name: each for each in context.history.audits if still_ns <= each.t_ns <= end_ns and not each.owner}
    expected = [*from_journal(context, since_ns, end_ns), *_gauges(audit)] if audit else []
    where = "at the drain" if rest.name == "drain" else f"at quiesce {rest.n}"
    for name, values in expected:
        samples = _of(context, name)
        if samples is None:
            continue
        at = np.flatnonzero((samples.t_ns > still_ns) & (samples.t_ns <= end_ns))
        if not len(at):
            continue
        compared.add(name)
        yield from _unless(name, float(samples.value[at[-1]]), values, int(samples.t_ns[at[-1]]), f"{where} is")


def _gauges(audit: dict[str, Audit]) -> Iterator[tuple[str, Expected]]:
    """The values of gauges by the totals of an audit. Judge reclamation looks at what is held too long."""
    values = {name: row.value for name, row in audit.items()}
    if all(values.get(name) == 0 for name in EMPTY if name in values) and "requests.open" in values:
        for name in AT_REST:
            yield name, Expected(0, 0, "the audit, which finds nothing held")
    if (cached := values.get("kv_blocks.cached")) is not None:
        yield "kv.cached_blocks", Expected(cached, cached, "the audit's cached blocks")


def _unless(name: str, value: float, expected: Expected, t_ns: int, words: str) -> Iterator[Wrong]:
    """The series is wrong, unless its value lies in the expected range."""
    if expected.low - TOLERANCE <= value <= expected.high + TOLERANCE:
        return
    yield Wrong(name, t_ns, f"{name} {words} {value:g}, expected {expected.text}: {expected.how}")


# -- gauges under load -------------------------------------------------------------------------------------------------


def _stuck(context: JudgeContext, compared: set[str]) -> Iterator[Wrong]:
    """Gauges that are zero in every sample though requests ran: `running`, and KV use while anything runs."""
    running, requests = _of(context, "server.running"), context.history.requests
    if running is None:
        return
    begun, last = np.sort(requests.first_ns[~np.isnan(requests.first_ns)]), np.sort(requests.last_ns)
    # A request is in the batch between its first and its last token; those that left early have no last token.
    sure = np.array([np.searchsorted(begun, t) - np.searchsorted(last, t + BUSY_NS) for t in running.t_ns])
    gone = np.count_nonzero(~np.isnan(requests.first_ns) & np.isnan(requests.last_ns))
    busy = np.flatnonzero(sure > gone)
    if len(busy) >= STUCK_SAMPLES:
        compared.add("server.running")
        if not running.value.any():
            text = f"server.running is 0 in every sample, though clients were reading tokens at {len(busy)} of them"
            yield Wrong("server.running", int(running.t_ns[busy[0]]), text)
    used = _of(context, "kv.usage")
    if used is None:
        return
    held = np.isin(used.t_ns, running.t_ns[running.value > 0])
    if np.count_nonzero(held) < STUCK_SAMPLES:
        return
    compared.add("kv.usage")
    if not used.value[held].any():
        text = f"kv.usage is 0 in all of {np.count_nonzero(held)} samples in which requests run"
        yield Wrong("kv.usage", int(used.t_ns[held][0]), text)


def _of(context: JudgeContext, name: str) -> Samples | None:
    samples = context.history.samples(name)
    return samples if samples is not None and len(samples.value) else None


def needs(plan: PlanView) -> Missing | None:
    if plan.capabilities & {"ledger", "metrics"}:
        return None
    return Missing("the target shows no metrics", "give target.metrics, or --metrics URL")


def judge(plan: PlanView) -> Judge:
    return Judge(NAME, decide, needs)
