"""tokens: what the model says is what it would have said alone.

Every row of the canary table is judged: canaries against their reference, and bystanders of a fault against their
fault-free twin (reference "twin"). `margin` is max |dlogit| where logits were compared, or the reference's margin at
the first parted token; either way the same bounds hold, measured on the runtime's own arithmetic: under 1e-5 is
rounding (benign, printed, never hidden), over 1e-4 is corruption, between them nobody can say.
"""

from enum import StrEnum

from assertions.brief import Brief
from assertions.case import Case, Judge, Missing, shown
from assertions.rows import Canary
from assertions.verdict import Evidence, Judged, State

NAME = "tokens"
DRIFT_BELOW = 1e-5
CORRUPT_ABOVE = 1e-4


class Likeness(StrEnum):
    EQUAL = "equal"
    DRIFT = "drift"
    CORRUPT = "corrupt"
    UNDECIDED = "undecided"  # between the bounds, or parted and nobody knows by how much
    NOT_COMPARED = "not compared"


def decide(case: Case) -> Judged:
    requests = case.history.requests
    answered = {name for row, name in enumerate(requests.id) if requests.kind[row] == "canary" and requests.ok[row]}
    likeness = {row.request: (row, classify(row)) for row in case.history.canaries}
    groups = {word: [row for row, found in likeness.values() if found is word] for word in Likeness}
    compared = sum(len(groups[word]) for word in Likeness if word is not Likeness.NOT_COMPARED)
    canaries_compared = sum(
        1 for name in answered if name in likeness and likeness[name][1] is not Likeness.NOT_COMPARED
    )
    share = canaries_compared / len(answered) if answered else float(compared > 0)
    limit = f"|dlogit| or parting margin below {CORRUPT_ABOVE:g}, {case.brief.canary_compared_min:.0%} compared"
    figures = {word.replace(" ", "_"): float(len(rows)) for word, rows in groups.items()} | {"compared_share": share}
    drift = f"; {len(groups[Likeness.DRIFT])} differ by rounding only" if groups[Likeness.DRIFT] else ""
    if corrupt := groups[Likeness.CORRUPT]:
        evidence = [_evidence(case, row) for row in corrupt]
        first = min((e.t_ns for e in evidence if e.t_ns is not None), default=None)
        return Judged(
            NAME,
            State.FAIL,
            f"{len(corrupt)} of {compared} compared replies are corrupt{drift}",
            limit=limit,
            observed=f"{len(corrupt)} corrupt, largest difference {_largest(corrupt)}",
            smallest_visible=f"|dlogit| {CORRUPT_ABOVE:g} in one reply",
            since_ns=first,
            fault=case.fault_before(first) if first is not None else None,
            evidence=shown(evidence),
            figures=figures,
        )
    doubt = groups[Likeness.UNDECIDED]
    because = None
    if doubt:
        because = f"{len(doubt)} replies differ by more than rounding and less than corruption, or by an unknown amount"
    elif compared == 0:
        because = "no reply was compared with a reference"
    elif share < case.brief.canary_compared_min:
        because = f"only {canaries_compared} of {len(answered)} answered canaries were compared"
    if because:
        return Judged(
            NAME,
            State.UNKNOWN,
            because + drift,
            limit=limit,
            observed=f"{compared} compared",
            evidence=shown([_evidence(case, row) for row in doubt]),
            because=because,
            to_decide="record logits or the reference's margins"
            if doubt
            else "send more canaries that can be compared",
            figures=figures,
        )
    return Judged(NAME, State.PASS, f"{compared} replies equal their reference{drift}", limit=limit, figures=figures)


def classify(row: Canary) -> Likeness:
    """Numbers before words: a recorder's `equal` beside a margin of 1e-2 is corruption all the same."""
    if row.state == "corrupt":
        return Likeness.CORRUPT
    if row.state in (None, "unknown") and row.compared == 0:
        return Likeness.NOT_COMPARED
    parted = row.state == "parted" or row.parted_at is not None
    if row.margin is not None and (parted or row.state in (None, "equal", "drift", "unknown")):
        if row.margin != row.margin or row.margin > CORRUPT_ABOVE:  # NaN logits are corruption too
            return Likeness.CORRUPT
        if row.margin >= DRIFT_BELOW:
            return Likeness.UNDECIDED
        return Likeness.DRIFT if parted or row.state == "drift" else Likeness.EQUAL
    if parted:
        return Likeness.UNDECIDED
    if row.state == "drift":
        return Likeness.DRIFT
    return Likeness.UNDECIDED if row.state == "unknown" else Likeness.EQUAL


def _evidence(case: Case, row: Canary) -> Evidence:
    requests = case.history.requests
    position = requests.row_of.get(row.request)
    t_ns = None if position is None else requests.start_of(position)
    where = "" if row.parted_at is None else f", parted at token {row.parted_at}"
    size = "difference not recorded" if row.margin is None else f"difference {row.margin:.3g}"
    return Evidence(t_ns, row.request, f"against {row.reference or 'its reference'}: {size}{where}")


def _largest(rows: list[Canary]) -> str:
    margins = [row.margin for row in rows if row.margin is not None]
    return f"{max(margins):.3g}" if margins else "not recorded"


def needs(brief: Brief) -> Missing | None:
    if not brief.canary_planned:
        return Missing("no canaries are planned", 'add canary = { every = "5s" }')
    return None


def judge(brief: Brief) -> Judge:
    return Judge(NAME, decide, needs)
