"""An exception in the live server gets the verdict that it gets in virtual time: FAIL alive, by the same words."""

from pathlib import Path

import pytest

from tests.planted.live import run

pytestmark = [pytest.mark.slow, pytest.mark.live]


@pytest.mark.parametrize(
    ("bug", "said"),
    [
        ("raises_in_plan", "AssertionError: planted in the plan; in Scheduler.plan (runtime/scheduling/scheduler.py:"),
        ("raises_in_sampler", "IndexError: planted in the sampler; in describe (runtime/models/sampler.py:"),
        ("raises_in_detokeniser", "UnicodeError: planted in the text; in Transcript.push (runtime/server/text.py:"),
    ],
)
def test_an_exception_in_the_live_server_fails_alive_with_its_mechanism(bug: str, said: str, tmp_path: Path) -> None:
    trial = run("breaks", tmp_path, [bug])
    assert f"planted: {bug} in runtime." in trial.log
    assert trial.exit == 1, trial.text
    alive = trial.judged("alive")
    assert alive["state"] == "FAIL"
    assert alive["summary"].startswith(f"exception in the runtime: {said}"), alive
    for name in ("report.html", "verdict.json", "junit.xml", "summary.md"):
        assert (trial.directory / name).stat().st_size > 0


def test_the_healthy_server_passes_the_scenario(tmp_path: Path) -> None:
    trial = run("breaks", tmp_path)
    assert trial.exit == 0, trial.text
