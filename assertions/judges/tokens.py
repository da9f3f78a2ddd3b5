"""Judge tokens: outputs are those that the model gives when a request runs alone.

Canaries are compared with their reference, or without one with the target's own answers in the baseline
(`assertions.agreement`). Bystanders are good replies of the load, most of them near a fault; they are compared with
their fault-free twins (rows with reference "twin") where we have the model's weights. Each planned half must have been
compared.

The recorder compares and writes the state. `margin` is the reference's margin at the first different token, or a
|dlogit|; for a twin with another text it is the margin of its closest choice. `assertions.corruption` has the bounds.
"""

from enum import StrEnum

from assertions.agreement import Agreement, agreement, prompts_known
from assertions.context import Judge, JudgeContext, Missing, shown
from assertions.corruption import CORRUPT_ABOVE, ROUNDING_BELOW
from assertions.formatting import duration, seconds, some
from assertions.plan_view import PlanView
from assertions.rows import Canary
from assertions.verdict import Evidence, Judged, State

NAME = "tokens"
TWIN = "twin"


class Likeness(StrEnum):
    EQUAL = "equal"
    DRIFT = "drift"
    CORRUPT = "corrupt"
    UNDECIDED = "undecided"  # between the bounds, or different by an unknown amount
    NOT_COMPARED = "not compared"


CANARIES_MIN = 3
"""Fewer corrupt canaries show no pattern."""
WORSE = (Likeness.EQUAL, Likeness.DRIFT, Likeness.UNDECIDED, Likeness.CORRUPT)


def decide(context: JudgeContext) -> Judged:
    selves = agreement(context)
    likeness = {row.request: (row, _likeness(row, selves)) for row in context.history.canaries}
    compared = {name for name, (_, found) in likeness.items() if found is not Likeness.NOT_COMPARED}
    twins = {name for name, (row, _) in likeness.items() if row.reference == TWIN}
    groups = {word: [row for row, found in likeness.values() if found is word] for word in Likeness}
    answered = _canaries_answered(context, selves)
    share = len(answered & compared) / len(answered) if answered else float(bool(compared - twins))
    limit = f"|dlogit| or parting margin below {CORRUPT_ABOVE:g}, {context.plan.canary_compared_min:.0%} compared"
    figures = {word.replace(" ", "_"): float(len(rows)) for word, rows in groups.items()}
    figures |= {"compared_share": share, "bystanders": float(len(twins & compared))}
    drift = f"; {len(groups[Likeness.DRIFT])} replies differ by rounding only" if groups[Likeness.DRIFT] else ""
    if selves.usual and groups[Likeness.DRIFT]:
        drift = f"; {len(groups[Likeness.DRIFT])} part, as some did before the trial: it rounds as its batches fall"
    if corrupt := groups[Likeness.CORRUPT]:
        evidence = [_evidence(context, row) for row in corrupt]
        first = min((e.t_ns for e in evidence if e.t_ns is not None), default=None)
        names = some([row.request for row in corrupt])
        return Judged(
            NAME,
            State.FAIL,
            f"{len(corrupt)} of {len(compared)} compared replies are corrupt: {names}{_everywhere(groups)}{drift}",
            limit=limit,
            observed=f"{len(corrupt)} corrupt, largest difference {_largest(corrupt)}",
            smallest_visible=f"|dlogit| {CORRUPT_ABOVE:g} in one reply",
            since_ns=first,
            fault=_suspect(context, corrupt),
            evidence=shown(evidence),
            figures=figures,
        )
    canaries_planned = _no_canaries(context.plan) is None
    doubt, because, cure = groups[Likeness.UNDECIDED], None, "send more canaries that can be compared"
    if doubt:
        because = f"{len(doubt)} replies differ by more than rounding and less than corruption, or by an unknown amount"
        cure = "record logits or the reference's margins"
    elif canaries_planned and not compared - twins:
        because = "no canary was compared with a reference"
        if selves.unsteady:
            because = "the target gave several answers to each fixed greedy prompt before the trial already"
    elif canaries_planned and share < context.plan.canary_compared_min:
        because = f"only {len(answered & compared)} of {len(answered)} answered canaries were compared"
    elif short := _bystanders_missing(context, len(twins), len(twins & compared)):
        because, cure = short, "let the run come to its end, with good replies to compare"
    if because:
        return Judged(
            NAME,
            State.UNKNOWN,
            because + drift,
            limit=limit,
            observed=f"{len(compared)} compared",
            evidence=shown([_evidence(context, row) for row in doubt]),
            because=because,
            to_decide=cure,
            figures=figures,
        )
    said = _said(context.plan, selves, len(compared - twins), len(twins & compared))
    observed = f"{len(compared - twins)} canaries and {len(twins & compared)} bystanders compared"
    return Judged(NAME, State.PASS, said + drift, limit=limit, observed=observed, figures=figures)


def _everywhere(groups: dict[Likeness, list[Canary]]) -> str:
    """A hint where no canary at all is right: such a difference comes neither from a batch nor from a fault."""

    def held(*words: Likeness) -> int:
        return sum(row.reference not in (None, TWIN) for word in words for row in groups[word])

    if held(Likeness.CORRUPT) < CANARIES_MIN or held(Likeness.EQUAL, Likeness.DRIFT):
        return ""
    return "; no canary is right, so the model itself is computed wrongly: its weights, positions or arithmetic"


def _canaries_answered(context: JudgeContext, selves: Agreement) -> set[str]:
    """Canaries that should have been compared, without those that are the reference."""
    requests = context.history.requests
    rows = (requests.kind.among("canary") & requests.ok).nonzero()[0].tolist()
    return {requests.id[row] for row in rows} - selves.references - selves.unsteady


def _bystanders_missing(context: JudgeContext, asked: int, compared: int) -> str | None:
    """A reason when the planned comparison of bystanders is incomplete; None when it is complete."""
    if not context.plan.twins_planned or (asked and compared >= context.plan.canary_compared_min * asked):
        return None
    if asked:
        return f"only {compared} of {asked} bystanders were compared with their twins"
    failed = next((event.detail for event in context.history.events if event.kind == "twins_failed"), None)
    return f"no bystander was compared with its twin: {failed or context.cut_short or 'none ended well'}"


def _said(plan: PlanView, selves: Agreement, canaries: int, bystanders: int) -> str:
    reference = "what the target said in the baseline" if selves.references else "their reference"
    halves = [f"{canaries} canaries equal {reference}"] if canaries else []
    if bystanders:
        halves.append(f"{bystanders} bystanders equal their twins")
    elif not plan.twins_planned:
        halves.append("bystanders have no twin without the model's weights")
    return ", ".join(halves)


def _likeness(row: Canary, selves: Agreement) -> Likeness:
    """The likeness by reference where there is one, else by agreement with the target's own earlier answers."""
    if row.reference is not None:
        return classify(row)
    if row.request in selves.parted:
        if selves.broken:
            return Likeness.CORRUPT
        return Likeness.DRIFT if selves.usual else Likeness.UNDECIDED
    return Likeness.EQUAL if row.request in selves.equal else Likeness.NOT_COMPARED


def classify(row: Canary) -> Likeness:
    """The worse of the recorder's state and the margin: `equal` with a margin of 1e-2 is corruption."""
    if row.compared == 0 and row.state in (None, "unknown", "equal"):
        return Likeness.NOT_COMPARED
    words = {"equal": Likeness.EQUAL, "drift": Likeness.DRIFT, "corrupt": Likeness.CORRUPT, "parted": Likeness.EQUAL}
    parted = row.state == "parted" or row.parted_at is not None
    by_word = Likeness.EQUAL if row.state is None else words.get(row.state, Likeness.UNDECIDED)
    if row.margin is None:
        by_number = Likeness.UNDECIDED if parted else Likeness.EQUAL
    elif not row.margin <= CORRUPT_ABOVE:  # NaN logits are corruption too
        by_number = Likeness.CORRUPT
    elif row.margin >= ROUNDING_BELOW:
        by_number = Likeness.UNDECIDED
    else:
        by_number = Likeness.DRIFT if parted else Likeness.EQUAL
    return max(by_word, by_number, key=WORSE.index)


def _evidence(context: JudgeContext, row: Canary) -> Evidence:
    requests = context.history.requests
    position = requests.row_of.get(row.request)
    t_ns = None if position is None else requests.start_of(position)
    where = "" if row.parted_at is None else f", parted at token {row.parted_at}"
    size = "difference not recorded" if row.margin is None else f"difference {row.margin:.3g}"
    if row.reference == TWIN and row.parted_at is None:
        size = "the texts differ" + (
            "" if row.margin is None else f", its closest choice had a margin of {row.margin:.3g}"
        )
    against = row.reference or "its own answer in the baseline"
    return Evidence(t_ns, row.request, f"against {against}: {size}{where}")


def _suspect(context: JudgeContext, rows: list[Canary]) -> str | None:
    """The fault that reached the first corrupt reply."""
    requests = context.history.requests
    positions = [requests.row_of[row.request] for row in rows if row.request in requests.row_of]
    first = min(positions, key=requests.start_of, default=None)
    if first is None:
        return None
    return context.blame.of_request(requests.id[first], requests.start_of(first), values=True)


def _largest(rows: list[Canary]) -> str:
    margins = [row.margin for row in rows if row.margin is not None]
    return f"{max(margins):.3g}" if margins else "not recorded"


def needs(plan: PlanView) -> Missing | None:
    return None if plan.twins_planned else _no_canaries(plan)


def _no_canaries(plan: PlanView) -> Missing | None:
    """A reason when this plan can't decide the canaries; None when it can."""
    if not plan.canary_planned:
        return Missing("no canaries are planned", 'add canary = { every = "5s" }')
    if plan.canary_by_itself and not prompts_known(plan.canary_every_s, plan.baseline_s):
        because = (
            f"the target's own answers are the reference, and a baseline of {seconds(plan.baseline_s)} holds too few"
        )
        return Missing(because, f"a baseline of {duration(2 * plan.canary_every_s)}, or canaries more often")
    return None


def judge(plan: PlanView) -> Judge:
    return Judge(NAME, decide, needs)
