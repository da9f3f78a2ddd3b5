"""tokens: what the model says is what it would have said alone.

Every row of the canary table is judged: canaries against their reference, and bystanders of a fault against their
fault-free twin (reference "twin"). The recorder compared |dlogprob| and wrote the state; `margin` is the reference's
margin at the first parted token, or a |dlogit|. The same bounds hold for both, measured on the runtime's own
arithmetic: under 1e-5 is rounding (benign, printed, never hidden), over 1e-4 corruption, between them nobody can say.
Rows without a reference are held against the target's own answers in the baseline (assertions.agreement).
"""

from enum import StrEnum

from assertions.agreement import Agreement, agreement, prompts_known
from assertions.brief import Brief
from assertions.case import Case, Judge, Missing, shown
from assertions.rows import Canary
from assertions.verdict import Evidence, Judged, State
from assertions.wording import duration, seconds

NAME = "tokens"
DRIFT_BELOW = 1e-5
CORRUPT_ABOVE = 1e-4


class Likeness(StrEnum):
    EQUAL = "equal"
    DRIFT = "drift"
    CORRUPT = "corrupt"
    UNDECIDED = "undecided"  # between the bounds, or parted and nobody knows by how much
    NOT_COMPARED = "not compared"


WORSE = (Likeness.EQUAL, Likeness.DRIFT, Likeness.UNDECIDED, Likeness.CORRUPT)


def decide(case: Case) -> Judged:
    requests = case.history.requests
    selves = agreement(case)
    # Canaries that became the reference themselves are not asked to be compared with it.
    answered = {
        name
        for row, name in enumerate(requests.id)
        if requests.kind[row] == "canary" and requests.ok[row] and name not in selves.references | selves.unsteady
    }
    likeness = {row.request: (row, _likeness(row, selves)) for row in case.history.canaries}
    groups = {word: [row for row, found in likeness.values() if found is word] for word in Likeness}
    compared = sum(len(groups[word]) for word in Likeness if word is not Likeness.NOT_COMPARED)
    canaries_compared = sum(
        1 for name in answered if name in likeness and likeness[name][1] is not Likeness.NOT_COMPARED
    )
    share = canaries_compared / len(answered) if answered else float(compared > 0)
    limit = f"|dlogit| or parting margin below {CORRUPT_ABOVE:g}, {case.brief.canary_compared_min:.0%} compared"
    figures = {word.replace(" ", "_"): float(len(rows)) for word, rows in groups.items()} | {"compared_share": share}
    drift = f"; {len(groups[Likeness.DRIFT])} differ by rounding only" if groups[Likeness.DRIFT] else ""
    if selves.usual and groups[Likeness.DRIFT]:
        drift = f"; {len(groups[Likeness.DRIFT])} part, as some did before the trial: it rounds as its batches fall"
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
        if selves.unsteady:
            because = "the target gave several answers to each fixed greedy prompt before the trial already"
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
    reference = "what the target said in the baseline" if selves.references else "their reference"
    return Judged(NAME, State.PASS, f"{compared} replies equal {reference}{drift}", limit=limit, figures=figures)


def _likeness(row: Canary, selves: Agreement) -> Likeness:
    """By reference where there is one, else by agreement with the target's own earlier answers."""
    if row.reference is not None:
        return classify(row)
    if row.request in selves.parted:
        if selves.broken:
            return Likeness.CORRUPT
        return Likeness.DRIFT if selves.usual else Likeness.UNDECIDED
    return Likeness.EQUAL if row.request in selves.equal else Likeness.NOT_COMPARED


def classify(row: Canary) -> Likeness:
    """The worse of what the recorder's word and the number say: `equal` beside a margin of 1e-2 is corruption."""
    if row.compared == 0 and row.state in (None, "unknown", "equal"):
        return Likeness.NOT_COMPARED
    words = {"equal": Likeness.EQUAL, "drift": Likeness.DRIFT, "corrupt": Likeness.CORRUPT, "parted": Likeness.EQUAL}
    parted = row.state == "parted" or row.parted_at is not None
    by_word = Likeness.EQUAL if row.state is None else words.get(row.state, Likeness.UNDECIDED)
    if row.margin is None:
        by_number = Likeness.UNDECIDED if parted else Likeness.EQUAL
    elif not row.margin <= CORRUPT_ABOVE:  # NaN logits are corruption too
        by_number = Likeness.CORRUPT
    elif row.margin >= DRIFT_BELOW:
        by_number = Likeness.UNDECIDED
    else:
        by_number = Likeness.DRIFT if parted else Likeness.EQUAL
    return max(by_word, by_number, key=WORSE.index)


def _evidence(case: Case, row: Canary) -> Evidence:
    requests = case.history.requests
    position = requests.row_of.get(row.request)
    t_ns = None if position is None else requests.start_of(position)
    where = "" if row.parted_at is None else f", parted at token {row.parted_at}"
    size = "difference not recorded" if row.margin is None else f"difference {row.margin:.3g}"
    against = row.reference or "its own answer in the baseline"
    return Evidence(t_ns, row.request, f"against {against}: {size}{where}")


def _largest(rows: list[Canary]) -> str:
    margins = [row.margin for row in rows if row.margin is not None]
    return f"{max(margins):.3g}" if margins else "not recorded"


def needs(brief: Brief) -> Missing | None:
    if not brief.canary_planned:
        return Missing("no canaries are planned", 'add canary = { every = "5s" }')
    if brief.canary_by_itself and not prompts_known(brief.canary_every_s, brief.baseline_s):
        because = (
            f"the target's own answers are the reference, and a baseline of {seconds(brief.baseline_s)} holds too few"
        )
        return Missing(because, f"a baseline of {duration(2 * brief.canary_every_s)}, or canaries more often")
    return None


def judge(brief: Brief) -> Judge:
    return Judge(NAME, decide, needs)
