"""One trial in its own process: what it came to is kept, whatever it came to."""

import json
from pathlib import Path

import pytest

from assertions.verdict import Judged, RunIdentity, State, Verdict
from harness.cli.exits import Exit
from harness.drive.stop import Stop
from harness.nightly.choose import Job
from harness.nightly.make import judged, make
from harness.nightly.trial import Trial
from harness.options import RunOptions
from tests.harness.nightly.fakes import HOST, TONIGHT

BARE = Trial(TONIGHT, "chat", False, HOST, "2026-11-28T22:00:00+00:00", State.UNKNOWN, 0, 1.0)


def test_a_trial_that_ends_without_a_verdict_is_unknown_and_tells_its_last_words(tmp_path: Path) -> None:
    job = Job("chat", RunOptions(str(tmp_path / "gone.toml"), tmp_path / "runs"))
    made = make(job, TONIGHT, HOST, tmp_path / "chat.log", Stop())
    assert (made.state, made.exit) == (State.UNKNOWN, Exit.USAGE)
    assert made.because is not None
    assert "exit code 4" in made.because
    assert "no such file" in made.because


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


@pytest.mark.parametrize("text", [None, "{", "{}", "[]"])
def test_a_verdict_that_cannot_be_read_is_unknown(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "verdict.json").write_text(text)
    kept = judged(BARE, tmp_path)
    assert kept.state is State.UNKNOWN
    assert kept.because is not None
    assert "no verdict can be read" in kept.because
