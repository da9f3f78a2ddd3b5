"""Judge reclamation: when all requests have ended, all resources have been returned. It is exact.

For an audited target each audit at a quiesce or at the drain must find the expected live resources and nothing in
limbo. For a foreign target running, waiting and KV use must be back at their idle level. Growth is reported per 1,000
completions, cancels and fires, because leaks scale with work and not with time.
"""

from collections import defaultdict

import numpy as np

from assertions.context import Judge, JudgeContext, Missing, shown
from assertions.formatting import amount, some
from assertions.idle_gauges import idle_level, idle_periods, reading_at, stuck_gauges
from assertions.plan_view import PlanView
from assertions.rows import Audit
from assertions.verdict import Evidence, Judged, State

NAME = "reclamation"
STILL = ("quiesce", "drain")
# metric -> True when a value above 0 may be the idle level, so that the first sample is the baseline
IDLE_SERIES = {"server.running": False, "server.waiting": False, "kv.usage": True}
IDLE_WORDS = {"server.running": "running", "server.waiting": "waiting", "kv.usage": "KV use"}
ENOUGH_FOR_A_RATE = 200
WORK = ("completions", "cancels", "fires")
LIMIT = "live equals what is expected, limbo is empty, at every quiesce and at the drain"


def decide(context: JudgeContext) -> Judged:
    audits = [audit for audit in context.history.audits if audit.scope in STILL]
    return _audited(context, audits) if audits else _metrics(context)


def _audited(context: JudgeContext, audits: list[Audit]) -> Judged:
    judged = [audit for audit in audits if audit.kind in ("live", "limbo") and not _under_fault(context, audit)]
    kept = _unexplained(context, [audit for audit in judged if _excess(audit) != 0])
    figures: dict[str, float] = {"audits": len({audit.t_ns for audit in judged})}
    figures |= _memory(context)
    if kept:
        return _kept(context, kept, _began(context, kept, audits), figures)
    blind = [audit for audit in judged if audit.value is None]
    drained = any(audit.scope == "drain" for audit in judged)
    because = None
    if not judged:
        because = "every audit fell into the window of a fault, or none counted what is alive"
    elif blind:
        because = f"{len(blind)} audit rows carry no value"
    elif not drained and context.cut_short:
        because = f"the drain was never audited: {context.cut_short}"
    elif not drained:
        because = "the drain was never audited"
    if because:
        return Judged(
            NAME, State.UNKNOWN, because, limit=LIMIT, because=because, to_decide="let it drain", figures=figures
        )
    names = sorted({audit.name for audit in judged})
    text = f"{int(figures['audits'])} audits, everything given back: {some(names)}"
    return Judged(NAME, State.PASS, text, limit=LIMIT, figures=figures)


def _kept(context: JudgeContext, kept: list[Audit], began: tuple[float, float], figures: dict[str, float]) -> Judged:
    """A FAIL that says who holds what, since when, and how it grows with the work done."""
    last_ns = kept[-1].t_ns
    at_end = [audit for audit in kept if audit.t_ns == last_ns]
    worst = max(at_end, key=lambda audit: abs(_excess(audit)))
    total = sum(_excess(audit) for audit in at_end if audit.name == worst.name and audit.kind == worst.kind)
    figures |= {"excess": total} | _growth(context, total, last_ns)
    per = ", ".join(
        f"{figures[key]:.3g} per 1,000 {key.removeprefix('per_1000_')}"
        for key in figures
        if key.startswith("per_1000_")
    )
    owners = [audit.owner for audit in at_end if audit.owner]
    unit = f" {worst.unit}" if worst.unit else ""
    word = "too many" if total > 0 else "missing"
    return Judged(
        NAME,
        State.FAIL,
        f"{worst.name}: {abs(total):g}{unit} {word} ({worst.kind}) at the {worst.scope}"
        + (f", held by {some(sorted(set(owners)))}" if owners else ""),
        limit=LIMIT,
        observed=f"{total:+g}{unit}" + (f", {per}" if per else ""),
        smallest_visible=f"1{unit or ' object'}",
        since_ns=int(began[1]),
        fault=_fault(context, kept, began),
        owner=some(sorted(set(owners))) if owners else None,
        evidence=shown([_evidence(audit) for audit in kept]),
        figures=figures,
    )


def _began(context: JudgeContext, kept: list[Audit], audits: list[Audit]) -> tuple[float, float]:
    """The interval (ns) in which the leak began.

    It is the life of the owner that ended first where owners are requests, else the time since the last clean audit.
    """
    requests, first_ns = context.history.requests, kept[0].t_ns
    if (row := _first_owner(context, kept)) is not None:
        return requests.start_of(row), float(requests.end_ns[row])
    return max((audit.t_ns for audit in audits if audit.t_ns < first_ns), default=0), first_ns


def _first_owner(context: JudgeContext, kept: list[Audit]) -> int | None:
    """The row of the request that ended first of those that own something; None when no owner is a request."""
    requests = context.history.requests
    names = {context.client_of.get(audit.owner, audit.owner) for audit in kept if audit.owner is not None}
    rows = [row for row in map(requests.row_of.get, names) if row is not None and not np.isnan(requests.end_ns[row])]
    return min(rows, key=lambda row: float(requests.end_ns[row]), default=None)


def _fault(context: JudgeContext, kept: list[Audit], began: tuple[float, float]) -> str | None:
    row = _first_owner(context, kept)
    if row is None:
        return context.blame.at(began[1], began[0])
    return context.blame.of_request(context.history.requests.id[row], began[1])


def _excess(audit: Audit) -> float:
    return 0.0 if audit.value is None else audit.value - (audit.expected or 0.0)


def _unexplained(context: JudgeContext, off: list[Audit]) -> list[Audit]:
    """The audit rows that no declared leak explains.

    A declared leak explains rows of the requests that it hit, and totals (`kv_blocks.live`) of exactly these rows.
    """
    declared = [audit for audit in off if _declared(context, audit)]
    sums: dict[tuple[int, str], float] = defaultdict(float)
    for audit in declared:
        sums[audit.t_ns, audit.name] += _excess(audit)
    return [
        audit
        for audit in off
        if audit not in declared
        and (audit.owner or not sums or _excess(audit) != sums[audit.t_ns, audit.name.removesuffix(f".{audit.kind}")])
    ]


def _declared(context: JudgeContext, audit: Audit) -> bool:
    """True when the row belongs to a request that a fault with symptom `audit:leak` hit."""
    for window in context.windows:
        if window.planned.symptom != "audit:leak" or window.first_ns > audit.t_ns:
            continue
        hit = {name for fire in window.fires for name in fire.requests}
        if audit.owner is not None and (audit.owner in hit or context.client_of.get(audit.owner) in hit):
            return True
    return False


def _under_fault(context: JudgeContext, audit: Audit) -> bool:
    """True for a quiesce audit while a fault is active: a hang may hold blocks in limbo. The drain is always judged."""
    on = [w for w in context.windows if w.first_ns <= audit.t_ns and (w.heal_ns is None or audit.t_ns < w.heal_ns)]
    return audit.scope == "quiesce" and bool(on)


def _growth(context: JudgeContext, excess: float, t_ns: int) -> dict[str, float]:
    return {f"per_1000_{name}": excess * 1000 / count for name, count in _work(context, 0, t_ns).items() if count}


def _work(context: JudgeContext, since_ns: float, until_ns: float) -> dict[str, int]:
    """Counts of work in a time, with which a leak may grow."""
    requests = context.history.requests
    ended = (requests.end_ns >= since_ns) & (requests.end_ns <= until_ns)
    return {
        "completions": int(np.count_nonzero(requests.ok & ended)),
        "cancels": int(np.count_nonzero(requests.outcome.among("cancelled") & ended)),
        "fires": sum(1 for fire in context.history.fires if since_ns <= fire.t_ns <= until_ns),
    }


def _memory(context: JudgeContext) -> dict[str, float]:
    """RSS growth from the start of the trial to the end. It is only reported here; `leak` judges it."""
    memory = context.history.samples("server.rss_anon")
    trial = context.intervals("trial")
    if memory is None or not trial or not len(memory.value):
        return {}
    start = memory.value[memory.t_ns >= trial[0][0]]
    if not len(start):
        return {}
    growth, work = float(start[-1] - start[0]), _work(context, trial[0][0], np.inf)
    done = {f"rss_{name}": float(work[name]) for name in ("completions", "cancels")}
    per = {f"rss_per_1000_{name}": growth * 1000 / work[name] for name in ("completions", "cancels") if work[name]}
    return {"rss_growth_bytes": growth, **done, **per}


def _memory_text(figures: dict[str, float], work: str) -> str | None:
    """Format RSS growth: "RSS +340 KiB per 1,000 cancels", or without a rate for few: "RSS +12 KiB over 29 cancels"."""
    count = figures.get(f"rss_{work}", 0.0)
    if not count:
        return None
    few = count < ENOUGH_FOR_A_RATE
    value = figures["rss_growth_bytes" if few else f"rss_per_1000_{work}"]
    return f"RSS {'+' if value >= 0 else ''}{amount(value, 'bytes')} {f'over {count:g}' if few else 'per 1,000'} {work}"


def _evidence(audit: Audit) -> Evidence:
    expected = f"{audit.expected or 0:g}"
    text = f"{audit.scope} audit: {audit.name} {audit.kind} {audit.value:g}, expected {expected}"
    owner = f"; owner {audit.owner}" if audit.owner else ""
    return Evidence(
        audit.t_ns, audit.owner, text + owner + (f"; last events: {audit.history}" if audit.history else "")
    )


def _metrics(context: JudgeContext) -> Judged:
    """Judge a foreign target by its own gauges in idle periods. The drain decides."""
    figures = _memory(context)
    quiet = idle_periods(context)
    found = {name: context.history.samples(name) for name in IDLE_SERIES}
    present = {name: samples for name, samples in found.items() if samples is not None and len(samples.value)}
    if not present or not context.intervals("drain"):
        absent = [f"{name} ({s.absent})" for name, s in found.items() if s is not None and s.absent]
        because = "no audit and no gauge at the drain" + (f": {', '.join(absent)}" if absent else "")
        cure = "give metrics, or a target that can be audited"
        return Judged(NAME, State.UNKNOWN, because, limit=LIMIT, because=because, to_decide=cure, figures=figures)
    kept, unseen = [], []
    for name, samples in present.items():
        idle = idle_level(context, samples) if IDLE_SERIES[name] else 0.0
        levels = [(rest, level) for rest in quiet if (level := reading_at(samples, rest)) is not None]
        if not levels or levels[-1][0].name != "drain":
            unseen.append(name)
            continue
        figures[name] = levels[-1][1].value
        kept += stuck_gauges(name, idle, levels)
    limit = "running, waiting and KV use back at their idle level after the drain"
    if kept:
        first, last = min(kept, key=lambda each: each.t_ns), kept[-1]
        figures |= _growth(context, figures[last.name] - last.idle, context.history.end_ns)
        per = ", ".join(
            f"{figures[f'per_1000_{each}']:.3g} per 1,000 {each}" for each in WORK if f"per_1000_{each}" in figures
        )
        return Judged(
            NAME,
            State.FAIL,
            last.text,
            limit=limit,
            observed=last.text + (f": {per}" if per else ""),
            smallest_visible="1 request, or 1 KV block",
            since_ns=first.t_ns,
            fault=context.blame.at(first.t_ns, first.after_ns),
            owner="server",
            evidence=shown([Evidence(each.t_ns, None, each.text) for each in kept]),
            figures=figures,
        )
    if unseen or context.cut_short:
        because = context.cut_short or f"no sample of {', '.join(unseen)} after the drain began"
        return Judged(
            NAME, State.UNKNOWN, because, limit=limit, because=because, to_decide="let it drain", figures=figures
        )
    now = {name: f"{IDLE_WORDS[name]} {figures[name]:g}" for name in present}
    memory = [part for each in ("cancels", "completions") if (part := _memory_text(figures, each))]
    text = f"{', '.join(now.values())} after the drain" + "".join(f"; {part}" for part in memory)
    short = ", ".join(now[name] for name in ("server.running", "kv.usage") if name in now)
    observed = "; ".join([short or text, *memory[:1]]) if short else text
    return Judged(NAME, State.PASS, text, limit=limit, observed=observed, figures=figures)


def needs(plan: PlanView) -> Missing | None:
    if plan.capabilities & {"kv_live", "metrics", "ledger"} or plan.target_kind == "builtin":
        return None
    return Missing("the target shows neither audits nor metrics", "give target.metrics, or --metrics URL")


def judge(plan: PlanView) -> Judge:
    return Judge(NAME, decide, needs)
