"""Quiet on health: a judge that cries on a good run is worse than none."""

import pytest

from assertions.judge import judge, needs
from assertions.verdict import Level, State, Verdict
from tests.assertions.recorded import Recorded, healthy


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    return healthy().verdict()


def test_every_required_judge_passes_a_healthy_run(verdict: Verdict) -> None:
    said = {judged.name: (judged.state, judged.summary) for judged in verdict.judges if judged.level is Level.REQUIRED}
    assert {name: state for name, (state, _) in said.items() if state is not State.PASS} == {
        "hang_ups": State.NOT_JUDGED  # no client leaves in it
    }, said
    assert set(said) >= {"answered", "alive", "tokens", "invariants", "fired", "reclamation", "recovery", "load"}
    assert (verdict.state, verdict.exit_code) == (State.PASS, 0)


def test_watched_judges_that_cannot_decide_name_their_price_and_leave_the_exit_code_alone(verdict: Verdict) -> None:
    leak = next(judged for judged in verdict.judges if judged.name == "leak.rss_anon")
    assert leak.state is State.NOT_JUDGED
    assert (leak.because, leak.to_decide) == ("8 periods needed, 0 planned", "add 38m")


def test_a_verdict_survives_json(verdict: Verdict) -> None:
    assert Verdict.from_json(verdict.to_json()) == verdict
    assert verdict.to_json()["exit"] == 0


def test_the_same_history_gets_the_same_verdict(verdict: Verdict) -> None:
    assert healthy().verdict().to_json() == verdict.to_json()


def test_an_empty_history_is_unknown_and_crashes_no_judge() -> None:
    run = Recorded()
    verdict = run.verdict()
    assert verdict.state is State.UNKNOWN
    assert [judged.summary for judged in verdict.judges if "crashed" in judged.summary] == []


def test_what_the_plan_said_is_not_judged_stays_not_judged() -> None:
    run = healthy()
    run.plan["judges"] = [
        {"name": "tokens", "level": "required", "state": "not_judged", "because": "no weights", "cure": "give weights"}
    ]
    assert run.judged("tokens").state is State.NOT_JUDGED


def test_the_plan_of_a_healthy_run_refuses_nothing() -> None:
    states = {need.judge: need.state.value for need in needs(healthy().plan_view())}
    assert "refused" not in states.values()
    assert {states[name] for name in ("answered", "alive", "fired", "load")} == {"planned"}


def test_a_crashed_judge_is_unknown_and_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    from assertions.judges import tokens

    def broken(context: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(tokens, "decide", broken)
    run = healthy()
    with run.history() as history:
        verdict = judge(history, run.plan_view())
    said = {judged.name: judged for judged in verdict.judges}
    assert said["tokens"].state is State.UNKNOWN
    assert "ZeroDivisionError: planted" in said["tokens"].summary
    assert said["answered"].state is State.PASS
    assert verdict.state is State.UNKNOWN
