"""The fault ledger: what each fault was told to do, what it did, who felt it, and when that was over."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assertions.history import Requests
from assertions.verdict import Judged
from harness.report import figures
from harness.report.outcomes import GOOD
from harness.report.source import Source

NS = 1e-9
MARK_LAG_S = 5.0  # the server writes its marks in batches, a little after the crossing


@dataclass(frozen=True)
class FaultRow:
    """One occurrence of one fault. Times are None where the thing did not happen."""

    fault: str
    n: int
    do: str
    state: str  # as recorded; "never armed" when the plan has it and the history has not
    arm_s: float | None
    first_s: float | None
    heal_s: float | None
    healed_by: str | None
    hits: int
    fired: int
    fired_min: int
    symptom: str | None  # what a part that does not know the injector must show, as planned
    symptom_seen: str  # what it did show, in words
    recovery: str
    requests_hit: int  # distinct requests named by its fires
    fires_unnamed: int  # fires that named no request
    collateral: int  # bad outcomes in its window of requests that it did not name
    hit_sample: str | None  # one request that it hit

    @property
    def name(self) -> str:
        return f"{self.fault}#{self.n}"

    @property
    def proven(self) -> bool:
        return self.fired >= self.fired_min


def fault_rows(source: Source, judges: tuple[Judged, ...]) -> tuple[FaultRow, ...]:
    requests = source.history.requests
    planned = {(entry["id"], entry.get("n", 0)): entry for entry in source.plan.get("faults") or []}
    hits = {(row["id"], row["n"]): (row["hits"], row["spec"]) for row in source.rows("SELECT * FROM fault")}
    hit, unnamed = _requests_hit(source)
    rows = []
    for fault in sorted(source.history.faults, key=lambda fault: (fault.arm_ns or 0, fault.id, fault.n)):
        key = (fault.id, fault.n)
        plan = planned.get(key) or planned.get((fault.id, 0)) or {}
        arm_s, first_s, heal_s = (
            None if ns is None else ns * NS for ns in (fault.arm_ns, fault.first_ns, fault.heal_ns)
        )
        symptom = plan.get("symptom") or None
        rows.append(
            FaultRow(
                fault=fault.id,
                n=fault.n,
                do=str(plan.get("do") or hits[key][1] or "?"),
                state=fault.state or "?",
                arm_s=arm_s,
                first_s=first_s,
                heal_s=heal_s,
                healed_by=fault.healed_by,
                hits=hits[key][0] or 0,
                fired=fault.fired,
                fired_min=fault.fired_min,
                symptom=symptom,
                symptom_seen=_symptom_seen(source, symptom, arm_s, heal_s),
                recovery=figures.MISSING if first_s is None else _recovery(requests, judges, key, heal_s),
                requests_hit=len(hit[key]),
                fires_unnamed=unnamed[key],
                collateral=_collateral(requests, hit[key], first_s, heal_s),
                hit_sample=min(hit[key], default=None),
            )
        )
    return tuple(rows) + tuple(_never_armed(entry) for key, entry in planned.items() if key not in hits)


def _requests_hit(source: Source) -> tuple[dict[tuple[str, int], set[str]], Counter[tuple[str, int]]]:
    """Requests that the fires of each occurrence name, by the client's id, and how many fires name none."""
    client_of = {
        served.server_id: served.request
        for served in source.history.served()
        if served.server_id is not None and served.request is not None
    }
    hit: dict[tuple[str, int], set[str]] = defaultdict(set)
    unnamed: Counter[tuple[str, int]] = Counter()
    for fire in source.history.fires:
        hit[fire.fault, fire.n].update(client_of.get(name, name) for name in fire.requests)
        unnamed[fire.fault, fire.n] += not fire.requests
    return hit, unnamed


def _symptom_seen(source: Source, symptom: str | None, arm_s: float | None, heal_s: float | None) -> str:
    kind, _, word = (symptom or "").partition(":")
    if arm_s is None or not word:
        return "none declared"
    until_s = np.inf if heal_s is None else heal_s + MARK_LAG_S
    match kind:
        case "mark":
            counts = source.rows("SELECT t_ns, n FROM mark WHERE name = ?", (word,))
            number = sum(row["n"] for row in counts if arm_s <= row["t_ns"] * NS <= until_s)
        case "outcome":
            requests = source.history.requests
            sent_s = requests.sent_ns * NS
            number = int(np.count_nonzero(requests.outcome.among(word) & (sent_s >= arm_s) & (sent_s <= until_s)))
        case "audit":
            rows = source.rows("SELECT t_ns FROM audit WHERE expected IS NOT NULL AND value <> expected")
            number = sum(row["t_ns"] * NS >= arm_s for row in rows)
        case _:
            return f"{symptom}: counted by the judge only"
    return f"{word} × {number:,}" if number else f"{word}: not seen"


def _recovery(requests: Requests, judges: tuple[Judged, ...], key: tuple[str, int], heal_s: float | None) -> str:
    """The recovery judge's own figure where it gave one; else when the next good answer came."""
    for judged in judges:
        if judged.name.startswith("recovery") and judged.fault in {key[0], f"{key[0]}#{key[1]}"} and judged.observed:
            return judged.observed
    if heal_s is None:
        return figures.MISSING
    later = requests.end_ns[requests.ok & (requests.sent_ns * NS >= heal_s)] * NS
    return f"next ok after {figures.seconds(float(later.min()) - heal_s)}" if len(later) else "no ok answer after it"


def _collateral(requests: Requests, hit: set[str], first_s: float | None, heal_s: float | None) -> int:
    """Bad outcomes whose life overlaps the fault's and which it did not name. Overlapping faults share them."""
    if first_s is None:
        return 0
    begin_s = np.where(requests.sent, requests.sent_ns, requests.intended_ns) * NS
    never_ended = np.isnan(requests.end_ns) & requests.sent
    end_s = np.where(never_ended, np.inf, np.where(requests.sent, requests.end_ns * NS, begin_s))
    alive = (begin_s <= (np.inf if heal_s is None else heal_s)) & (end_s >= first_s)
    return sum(requests.id[row] not in hit for row in np.flatnonzero(alive & ~requests.outcome.among(*GOOD)))


def _never_armed(entry: Mapping[str, object]) -> FaultRow:
    return FaultRow(
        fault=str(entry["id"]),
        n=int(str(entry.get("n", 0))),
        do=str(entry["do"]),
        state="never armed",
        arm_s=None,
        first_s=None,
        heal_s=None,
        healed_by=None,
        hits=0,
        fired=0,
        fired_min=int(str(entry.get("fired_min", 1))),
        symptom=str(entry.get("symptom") or "") or None,
        symptom_seen="not looked for",
        recovery=figures.MISSING,
        requests_hit=0,
        fires_unnamed=0,
        collateral=0,
        hit_sample=None,
    )
