"""One trial in its own process: what it came to is kept, whatever it came to."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from assertions.verdict import Judged, RunIdentity, State, Verdict
from harness.exits import Exit
from harness.nightly.run_trial import judged, run_trial
from harness.nightly.select import Job
from harness.nightly.trial import Trial
from harness.options import RunOptions
from harness.trial.stop import Stop
from tests.harness.nightly.fakes import HOST, TONIGHT

BARE = Trial(TONIGHT, "chat", False, HOST, "2026-11-28T22:00:00+00:00", State.UNKNOWN, 0, 1.0)


def test_a_trial_that_ends_without_a_verdict_is_unknown_and_tells_its_last_words(tmp_path: Path) -> None:
    job = Job("chat", RunOptions(str(tmp_path / "gone.toml"), tmp_path / "runs"))
    made = run_trial(job, TONIGHT, HOST, tmp_path / "chat.log", Stop())
    assert (made.state, made.exit) == (State.UNKNOWN, Exit.USAGE)
    assert made.because is not None
    assert "exit code 4" in made.because
    assert "no such file" in made.because


def test_a_trial_that_does_not_end_is_stopped_and_says_so(tmp_path: Path) -> None:
    slow = Path(__file__).parents[3] / "harness" / "nightly" / "planted-drift.toml"
    job = Job("chat", RunOptions(str(slow), tmp_path / "runs"), wall_s_max=0.0)
    made = run_trial(job, TONIGHT, HOST, tmp_path / "chat.log", Stop())
    assert made.state is State.UNKNOWN
    assert made.because is not None
    assert made.because.startswith("it took more than 0 s and was stopped")


def test_the_verdict_is_kept_with_its_judges(tmp_path: Path) -> None:
    run = RunIdentity("r1", 7, "abc", True, "0.1.0", "chat", "x", "seatrial replay r1")
    judges = (Judged("a", State.FAIL, "kept 3", figures={"excess": 3.0}), Judged("b", State.UNKNOWN, "", because="few"))
    (tmp_path / "verdict.json").write_text(json.dumps(Verdict(State.FAIL, judges, run).to_json()))
    (tmp_path / "plan.json").write_text(json.dumps({"scenario": {"drive": "virtual"}}))
    kept = judged(BARE, tmp_path)
    assert (kept.state, kept.run_id, kept.commit, kept.dirty, kept.seed, kept.drive) == (
        State.FAIL,
        "r1",
        "abc",
        True,
        7,
        "virtual",
    )
    assert [(one.name, one.text) for one in kept.judges] == [("a", "kept 3"), ("b", "few")]
    assert kept.judges[0].figures == {"excess": 3.0}


@pytest.mark.parametrize(("said", "kept"), [(State.PASS, State.UNKNOWN), (State.FAIL, State.FAIL)])
def test_a_trial_that_was_cut_short_never_passes(tmp_path: Path, said: State, kept: State) -> None:
    run = RunIdentity("r1", 7, "abc", False, "0.1.0", "chat", "x")
    (tmp_path / "verdict.json").write_text(json.dumps(Verdict(said, (), run).to_json()))
    (tmp_path / "plan.json").write_text("{}")
    cut_short = judged(replace(BARE, exit=Exit.INTERRUPTED), tmp_path)
    assert cut_short.state is kept
    assert cut_short.because == "interrupted: judged up to the interruption"


@pytest.mark.parametrize("text", [None, "{", "{}", "[]"])
def test_a_verdict_that_cannot_be_read_is_unknown(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "verdict.json").write_text(text)
    kept = judged(BARE, tmp_path)
    assert kept.state is State.UNKNOWN
    assert kept.because is not None
    assert "the verdict can't be read" in kept.because
