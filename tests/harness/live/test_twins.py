"""Bystanders and their twins: chosen beside the fires, asked again by the prompt that was sent, never a silent pass."""

from pathlib import Path
from typing import Any

import pytest

from assertions.history import History
from assertions.plan_view import PlanView
from harness.live import twins
from harness.live.reference import Prompt, ReferenceFailed
from harness.live.twins import Bystander, choose, compare_twins, held_against
from harness.load.prompt import prompt_text, text_digest
from harness.plan.plan import Plan, make
from harness.provenance import Provenance
from harness.record.canary import Answer
from harness.record.recorder import Recorder
from runtime.points import catalogue
from scenarios.arrivals import arrivals, turns
from scenarios.read import read_text

S = 1_000_000_000
TEXT = """
schema = 1
name = "t"
means = "x"
phases = { warmup = { completed = 10 }, baseline = "10s", trial = "40s", recovery = "10s" }
load = [
  { id = "chat", rate = "4/s", prompt_tokens = [20, 40], output_tokens = 4, shared_prefix = 0.5 },
  { id = "user", arrivals = "closed", users = 3 },
]
[[fault]]
id = "oom"
do = "kv.take: oom"
when = { at = "10s" }
expect = { recover = "5s" }
"""


@pytest.fixture
def plan() -> Plan:
    return make(read_text(TEXT), catalogue(), "r1", Provenance("0", "abc", False))


@pytest.fixture
def recorder(tmp_path: Path, plan: Plan) -> Any:
    """200 good replies of chat at 4/s and six of closed users; a fault fires at 30 s and is over at 36 s."""
    made = Recorder(tmp_path, 0)
    chat, user = plan.scenario.load
    asks = [
        (f"r1-chat-{row.n}", chat.id, row)
        for row, _ in zip(arrivals(chat, plan.scenario.seed), range(200), strict=False)
    ]
    asks += [
        (f"r1-user-{row.n}", user.id, row)
        for n in range(3)
        for row, _ in zip(turns(user, plan.scenario.seed, n), "ab", strict=False)
    ]
    for number, (name, load, row) in enumerate(asks):
        at_ns = number * S // 4
        digest = text_digest(prompt_text(row.parts))
        made.put("request", id=name, load=load, kind="load", plan_row=row.n, prompt_sha=digest,
                 output_tokens_max=row.output_tokens, intended_ns=at_ns, sent_ns=at_ns)  # fmt: skip
        made.put("reply", request=name, end_ns=at_ns + S // 2, outcome="ok", text_sha=text_digest(f"said to {name}"))
    made.put("fault", id="oom", n=0, arm_ns=30 * S, first_ns=30 * S, heal_ns=31 * S, fired=1, state="healed")
    made.put("fire", fault="oom", n=0, t_ns=30 * S)
    made.phase("drain", 0, 50 * S, 52 * S, "done")
    yield made
    made.close()


def compared(recorder: Recorder, plan: Plan) -> tuple[dict[str, str | None], list[tuple[str, str]]]:
    """States of the twin rows by request, and the events, after a comparison."""
    compare_twins(plan, recorder, lambda text: None)
    recorder.pump()
    with History.open(recorder.path) as history:
        rows = {row.request: row.state for row in history.canaries if row.reference == "twin"}
        return rows, [(event.kind, event.detail) for event in history.events]


def knowing(monkeypatch: pytest.MonkeyPatch, other: str = "", margins: tuple[float, ...] = (0.3, 0.2)) -> list[Prompt]:
    """A reference that says what everybody was told, but something else to `other`. What it was asked is kept."""
    heard: list[Prompt] = []

    def answers(plan: Plan, prompts: list[Prompt], most_s: float) -> tuple[str, dict[str, Answer]]:
        heard.extend(prompts)
        said = {each.id: "nothing like it" if each.id == other else f"said to {each.id}" for each in prompts}
        return "digest", {name: Answer(("a", "b"), (0.0, 0.0), margins, text) for name, text in said.items()}

    monkeypatch.setattr(twins, "exact_answers", answers)
    return heard


def test_those_in_flight_at_a_fire_come_first_then_those_in_its_window(recorder: Recorder, plan: Plan) -> None:
    recorder.pump()
    plan_view = PlanView.from_plan(plan.to_json())
    with History.open(recorder.path) as history:
        order = [int(name.rpartition("-")[2]) for name in choose(history, plan_view, 40)]
        assert choose(history, plan_view, 40) == choose(history, plan_view, 60)[:40]
    assert set(order[:3]) == {118, 119, 120}
    assert set(order[3:27]) == set(range(121, 145))
    assert not set(order[27:]) & set(range(118, 145))


def test_each_is_asked_again_with_the_prompt_that_it_was_sent(
    recorder: Recorder, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(twins, "TWINS_MAX", 1000)
    heard = knowing(monkeypatch)
    rows, events = compared(recorder, plan)
    assert len(heard) == len(rows) == 206
    assert {each.id for each in heard if "user" in each.id} == {f"r1-user-{n}" for n in range(6)}
    assert set(rows.values()) == {"equal"}
    assert events == [("twins_compared", "")]


@pytest.mark.parametrize(
    ("margins", "state"), [((0.3, 2e-4), "corrupt"), ((0.3, 9e-6), "drift"), ((0.3, 5e-5), "unknown")]
)
def test_another_text_is_corruption_unless_some_choice_was_close(
    recorder: Recorder, plan: Plan, monkeypatch: pytest.MonkeyPatch, margins: tuple[float, ...], state: str
) -> None:
    knowing(monkeypatch, other="r1-chat-119", margins=margins)
    rows, _ = compared(recorder, plan)
    assert len(rows) == twins.TWINS_MAX
    assert {name: found for name, found in rows.items() if found != "equal"} == {"r1-chat-119": state}


def test_a_reply_without_text_equals_a_twin_without_text() -> None:
    silent, twin = Bystander("r", "chat", 0, "", 4, None), Answer(("</s>",), (0.0,), (0.5,), "")
    assert held_against(silent, twin)["state"] == "equal"
    assert held_against(silent, Answer(("a",), (0.0,), (0.5,), "a"))["state"] == "corrupt"


def test_a_reference_that_fails_is_an_event_and_no_row(
    recorder: Recorder, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(plan: Plan, prompts: list[Prompt], most_s: float) -> tuple[str, dict[str, Answer]]:
        raise ReferenceFailed("no answer in 60 s")

    monkeypatch.setattr(twins, "exact_answers", fails)
    rows, events = compared(recorder, plan)
    assert rows == {}
    assert events == [("twins_failed", "ReferenceFailed: no answer in 60 s")]


def test_a_prompt_that_cannot_be_had_again_fails_by_name(
    recorder: Recorder, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    knowing(monkeypatch)
    recorder.pump()
    with recorder._connection as connection:
        connection.execute("UPDATE request SET prompt_sha = 'other' WHERE id = 'r1-chat-120'")
    rows, events = compared(recorder, plan)
    assert rows == {}
    assert "the plan row of r1-chat-120 gives another prompt than the recorded one" in events[0][1]


def test_the_comparison_makes_no_run_longer(recorder: Recorder, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    knowing(monkeypatch)
    compared(recorder, plan)
    with History.open(recorder.path) as history:
        assert history.end_ns == 52 * S
