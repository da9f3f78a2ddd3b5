"""reclamation: after everything was answered, everything was given back. Exact, tolerance 0.

Where the target is audited, each audit at a quiesce or at the drain must find what it expects of what is alive, and
nothing stuck in limbo. For a foreign target the same is read from its metrics: running, waiting and KV use are back.
Growth is told per 1,000 completions, cancels and fires, because leaks scale with what is done, not with time.
"""

import numpy as np

from assertions.brief import Brief
from assertions.case import Case, Judge, Missing, shown
from assertions.rows import Audit, Samples
from assertions.verdict import Evidence, Judged, State
from assertions.wording import amount, some

NAME = "reclamation"
STILL = ("quiesce", "drain")
# metric -> may a value above 0 be the normal idle level (so that the first sample is the baseline)
IDLE_SERIES = {"server.running": False, "server.waiting": False, "kv.usage": True}
IDLE_TOLERANCE = 1e-6
LIMIT = "live equals what is expected, limbo is empty, at every quiesce and at the drain"


def decide(case: Case) -> Judged:
    audits = [audit for audit in case.history.audits if audit.scope in STILL]
    return _audited(case, audits) if audits else _metrics(case)


def _audited(case: Case, audits: list[Audit]) -> Judged:
    judged = [audit for audit in audits if audit.kind in ("live", "limbo") and not _under_fault(case, audit)]
    kept = [audit for audit in judged if _excess(audit) != 0 and not _meant(case, audit)]
    figures: dict[str, float] = {"audits": len({audit.t_ns for audit in judged})}
    figures |= _memory_per_1000(case)
    if kept:
        return _kept(case, kept, figures)
    blind = [audit for audit in judged if audit.value is None]
    drained = any(audit.scope == "drain" for audit in judged)
    because = None
    if not judged:
        because = "every audit fell into the window of a fault, or none counted what is alive"
    elif blind:
        because = f"{len(blind)} audit rows carry no value"
    elif not drained and case.cut_short:
        because = f"the drain was never audited: {case.cut_short}"
    elif not drained:
        because = "the drain was never audited"
    if because:
        return Judged(
            NAME, State.UNKNOWN, because, limit=LIMIT, because=because, to_decide="let it drain", figures=figures
        )
    names = sorted({audit.name for audit in judged})
    text = f"{int(figures['audits'])} audits, everything given back: {some(names)}"
    return Judged(NAME, State.PASS, text, limit=LIMIT, figures=figures)


def _kept(case: Case, kept: list[Audit], figures: dict[str, float]) -> Judged:
    """FAIL: who holds what, since when, and how it grows with the work done."""
    first, last_ns = kept[0], kept[-1].t_ns
    at_end = [audit for audit in kept if audit.t_ns == last_ns]
    worst = max(at_end, key=lambda audit: abs(_excess(audit)))
    total = sum(_excess(audit) for audit in at_end if audit.name == worst.name and audit.kind == worst.kind)
    figures |= {"excess": total} | _growth(case, total, last_ns)
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
        since_ns=first.t_ns,
        fault=case.fault_before(first.t_ns),
        owner=some(sorted(set(owners))) if owners else None,
        evidence=shown([_evidence(audit) for audit in kept]),
        figures=figures,
    )


def _excess(audit: Audit) -> float:
    return 0.0 if audit.value is None else audit.value - (audit.expected or 0.0)


def _meant(case: Case, audit: Audit) -> bool:
    """A leak that was the fault's own doing, held by exactly the requests that it hit."""
    for window in case.windows:
        if window.planned is None or window.planned.symptom != "audit:leak" or window.first_ns > audit.t_ns:
            continue
        hit = {name for fire in window.fires for name in fire.requests}
        if audit.owner is not None and (audit.owner in hit or case.client_of.get(audit.owner) in hit):
            return True
    return False


def _under_fault(case: Case, audit: Audit) -> bool:
    """While a fault is on, a hang may rightly hold its blocks in limbo. The drain has no such excuse."""
    on = [w for w in case.windows if w.first_ns <= audit.t_ns and (w.heal_ns is None or audit.t_ns < w.heal_ns)]
    return audit.scope == "quiesce" and bool(on)


def _growth(case: Case, excess: float, t_ns: int) -> dict[str, float]:
    requests = case.history.requests
    until = requests.end_ns <= t_ns
    counts: dict[str, int] = {
        "completions": int(np.count_nonzero(requests.ok & until)),
        "cancels": int(np.count_nonzero(requests.outcome.among("cancelled") & until)),
        "fires": sum(1 for fire in case.history.fires if fire.t_ns <= t_ns),
    }
    return {f"per_1000_{name}": excess * 1000 / count for name, count in counts.items() if count}


def _memory_per_1000(case: Case) -> dict[str, float]:
    """RSS growth from the end of warm-up to the end, told but not judged here: `leak` judges it."""
    memory = case.history.samples("server.rss_anon")
    trial = case.spans("trial")
    if memory is None or not trial or not len(memory.value):
        return {}
    start = memory.value[memory.t_ns >= trial[0][0]]
    if not len(start):
        return {}
    growth = float(start[-1] - start[0])
    spent = _growth(case, growth, case.history.end_ns)
    return {f"rss_{key}": value for key, value in spent.items() if not key.endswith("fires")}


def _evidence(audit: Audit) -> Evidence:
    expected = f"{audit.expected or 0:g}"
    text = f"{audit.scope} audit: {audit.name} {audit.kind} {audit.value:g}, expected {expected}"
    owner = f"; owner {audit.owner}" if audit.owner else ""
    return Evidence(
        audit.t_ns, audit.owner, text + owner + (f"; last events: {audit.history}" if audit.history else "")
    )


def _metrics(case: Case) -> Judged:
    """From the outside: what the target's own gauges say once nothing is asked of it."""
    figures = _memory_per_1000(case)
    drains = case.spans("drain")
    found = {name: case.history.samples(name) for name in IDLE_SERIES}
    present = {name: samples for name, samples in found.items() if samples is not None and len(samples.value)}
    if not present or not drains:
        absent = [f"{name} ({s.absent})" for name, s in found.items() if s is not None and s.absent]
        because = "no audit and no gauge at the drain" + (f": {', '.join(absent)}" if absent else "")
        cure = "give metrics, or a target that can be audited"
        return Judged(NAME, State.UNKNOWN, because, limit=LIMIT, because=because, to_decide=cure, figures=figures)
    kept, unseen = [], []
    for name, samples in present.items():
        last = samples.value[samples.t_ns >= drains[-1][0]]
        if not len(last):
            unseen.append(name)
            continue
        idle = _idle_level(case, samples) if IDLE_SERIES[name] else 0.0
        figures[name] = float(last[-1])
        if last[-1] > idle + IDLE_TOLERANCE:
            kept.append(
                Evidence(int(samples.t_ns[-1]), None, f"{name} is {last[-1]:g} after the drain, idle is {idle:g}")
            )
    limit = "running, waiting and KV use back at their idle level after the drain"
    if kept:
        return Judged(
            NAME,
            State.FAIL,
            kept[0].text,
            limit=limit,
            observed=kept[0].text,
            smallest_visible="1 request, or 1 KV block",
            since_ns=kept[0].t_ns,
            fault=case.fault_before(kept[0].t_ns or 0),
            owner="server",
            evidence=shown(kept),
            figures=figures,
        )
    if unseen or case.cut_short:
        because = case.cut_short or f"no sample of {', '.join(unseen)} after the drain began"
        return Judged(
            NAME, State.UNKNOWN, because, limit=limit, because=because, to_decide="let it drain", figures=figures
        )
    rss = {key: value for key, value in figures.items() if key.startswith("rss_")}
    growth = "".join(f", RSS {amount(v, 'bytes')} {k.removeprefix('rss_').replace('_', ' ')}" for k, v in rss.items())
    return Judged(
        NAME, State.PASS, f"{', '.join(present)} are back after the drain{growth}", limit=limit, figures=figures
    )


def _idle_level(case: Case, samples: Samples) -> float:
    """The level before the first request; 0 when nothing was sampled then."""
    requests = case.history.requests
    first_ns = np.nanmin(requests.sent_ns) if requests.sent.any() else np.inf
    before = samples.value[samples.t_ns < first_ns]
    return float(before[-1]) if len(before) else 0.0


def needs(brief: Brief) -> Missing | None:
    if brief.capabilities & {"kv_live", "pid", "ledger"} or brief.target_kind == "builtin":
        return None
    return Missing("the target shows neither audits nor metrics", "give target.metrics or target.pid")


def judge(brief: Brief) -> Judge:
    return Judge(NAME, decide, needs)
