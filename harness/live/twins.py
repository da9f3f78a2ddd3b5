"""Compares replies of bystanders with their twins: the replies that the same prompts give without any fault.

    history -> good replies, those near a fire first -> their prompts, made again from their plan rows
            -> the oracle (harness.oracle)            -> one row of table canary each, reference "twin"

Load requests are greedy and their prompts follow from the seed, so a twin needs no second run. The comparison runs
after the end of load and server, so that it takes no processor time from the measurement.
"""

import hashlib
import itertools
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from assertions.history import History
from assertions.plan_view import PlanView
from assertions.windows import in_flight, touched, windows
from harness.live.reference import Prompt, ReferenceFailed, exact_answers
from harness.load.prompt import prompt_text, text_digest
from harness.plan.plan import Plan
from harness.record.canary import Answer, parting_state
from harness.record.recorder import Recorder
from scenarios.arrivals import PlannedRequest, arrivals, turns
from scenarios.load import Load

TWINS_MAX = 64
TWINS_MAX_S = 60.0


@dataclass(frozen=True)
class Bystander:
    """A good reply of the history. `text_sha` is None when it had no text."""

    request: str
    load: str
    plan_row: int
    prompt_sha: str
    output_tokens_max: int
    text_sha: str | None


def compare_twins(plan: Plan, recorder: Recorder, say: Callable[[str], None]) -> None:
    """Compare the bystanders and write the rows into the history. A failure is recorded as an event.

    Raises HistoryFull.
    """
    recorder.pump()
    plan_view = PlanView.from_plan(plan.to_json())
    with History.open(recorder.path) as history:
        # The events get the time of the run's end, so that the run does not look longer to the judges.
        over_ns = recorder.start_ns + history.end_ns
        bystanders = _bystanders(recorder, choose(history, plan_view, TWINS_MAX))
    say(f"comparing {len(bystanders)} bystanders with their fault-free twins")
    try:
        twins = _twins(plan, bystanders)
        rows = [{"request": each.request, **held_against(each, twins[each.request])} for each in bystanders]
    except Exception as error:  # the run must get its verdict in every case; the judge sees the event
        recorder.event(over_ns, "harness", "twins_failed", None, f"{type(error).__name__}: {error}")
        say(f"bystanders could not be compared: {error}")
        return
    for row in rows:
        recorder.put("canary", reference="twin", **row)
    recorder.event(over_ns, "harness", "twins_compared", len(rows), None)


def choose(history: History, plan_view: PlanView, most: int) -> list[str]:
    """Ids of at most `most` good replies: first those in flight at a fire, then in a fault's window, then others.

    The order within each class is drawn from the seed.
    """
    requests, found = history.requests, windows(history, plan_view)
    at_fire = np.zeros(len(requests), dtype=bool)
    for fire in (fire for window in found for fire in window.fires):
        at_fire |= in_flight(requests, fire.t_ns)
    rank = np.where(at_fire, 0, np.where(touched(requests, found), 1, 2))
    rows = np.flatnonzero(requests.ok & requests.kind.among("load", "probe")).tolist()
    ranked = sorted((int(rank[row]), _draw(plan_view, requests.id[row]), requests.id[row]) for row in rows)
    return [name for _, _, name in ranked[:most]]


def held_against(bystander: Bystander, twin: Answer) -> dict[str, object]:
    """The columns of a comparison. It compares digests of whole texts, so the position of a difference is unknown.

    A difference is corruption if every choice of the twin had a margin too large for rounding to change it. Otherwise
    it may be benign.
    """
    assert twin.tokens is not None
    assert twin.margins is not None
    if bystander.text_sha == (text_digest(twin.text) if twin.text else None):
        return {"compared": len(twin.tokens), "state": "equal"}
    closest = min((margin for margin in twin.margins if margin is not None), default=0.0)
    return {"compared": len(twin.tokens), "margin": closest, "state": parting_state(closest)}


def _twins(plan: Plan, bystanders: Sequence[Bystander]) -> dict[str, Answer]:
    """The fault-free reply of each bystander, by request. Raises ReferenceFailed."""
    of_load: dict[str, list[Bystander]] = defaultdict(list)
    for each in bystanders:
        of_load[each.load].append(each)
    prompts = []
    for load, members in of_load.items():
        asks = _asks(plan.scenario.load_named(load), plan.scenario.seed, {each.plan_row for each in members})
        for each in members:
            text = prompt_text(asks[each.plan_row].parts)
            if text_digest(text) != each.prompt_sha:
                raise ReferenceFailed(f"the plan row of {each.request} gives another prompt than the recorded one")
            prompts.append(Prompt(each.request, text, each.output_tokens_max))
    return exact_answers(plan, prompts, TWINS_MAX_S)[1] if prompts else {}


def _asks(load: Load, seed: int, wanted: set[int]) -> dict[int, PlannedRequest]:
    """The rows of a load's plan with the numbers in `wanted`, by number."""
    if load.arrivals != "closed":
        rows = itertools.takewhile(lambda row: row.n <= max(wanted), arrivals(load, seed))
        return {row.n: row for row in rows if row.n in wanted}
    assert load.users is not None
    users = load.users
    return {n: next(itertools.islice(turns(load, seed, n % users), n // users, None)) for n in wanted}


def _bystanders(recorder: Recorder, names: list[str]) -> list[Bystander]:
    query = """SELECT q.id, q.load, q.plan_row, q.prompt_sha, q.output_tokens_max, p.text_sha
               FROM request q JOIN reply p ON p.request = q.id WHERE q.id = ? LIMIT 1"""
    connection = sqlite3.connect(f"{recorder.path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        return [Bystander(*connection.execute(query, (name,)).fetchone()) for name in names]
    finally:
        connection.close()


def _draw(plan_view: PlanView, request: str) -> bytes:
    """A draw that is equal for a plan row in every run of a seed: the run's part of the request id is removed."""
    row = request.removeprefix(f"{plan_view.run.run_id}-")
    return hashlib.blake2b(f"{plan_view.run.seed}/twin/{row}".encode(), digest_size=8).digest()
