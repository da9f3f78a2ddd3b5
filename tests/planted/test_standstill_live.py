"""A live server in which nobody moves ends the run before its time, and the verdict says who waits for what."""

from pathlib import Path

import pytest

from tests.planted.live import run

pytestmark = [pytest.mark.slow, pytest.mark.live]


@pytest.mark.parametrize(
    ("bug", "said"),
    [
        ("loops_in_plan", "; the engine's thread is in Scheduler.plan (runtime/scheduling/scheduler.py:"),
        ("completion_lost", "is lost: the device has it no more; "),
    ],
)
def test_a_live_server_that_stands_still_fails_alive_and_ends_the_run(bug: str, said: str, tmp_path: Path) -> None:
    trial = run("stands", tmp_path, [bug])
    assert f"planted: {bug} in runtime." in trial.log
    assert trial.exit == 1, trial.text
    alive = trial.judged("alive")
    assert alive["state"] == "FAIL"
    assert alive["summary"].startswith("standstill: ")
    assert said in alive["summary"], alive
    assert " -> " in alive["summary"]
    assert "the run ends early: the server stands still: " in trial.flat
