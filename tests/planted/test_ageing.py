"""A server that gets slower with every request it has served is found by a fresh one beside it.

For the nights: the trial takes two minutes. The judge is tried on recorded runs in tests/assertions.
"""

from pathlib import Path

import pytest

from tests.planted.live import run

pytestmark = [pytest.mark.slow, pytest.mark.live, pytest.mark.soak]
WITHIN_S = 420.0
CHECK = "fresh_vs_aged.e2e.p50 < 100% [probe]"


def test_an_aged_server_is_slower_than_a_fresh_one(tmp_path: Path) -> None:
    trial = run("ageing", tmp_path, ("slower_with_age",), WITHIN_S)
    assert trial.exit == 1, trial.text
    assert trial.failed == {CHECK}
    assert trial.judged(CHECK)["figures"]["share"] > 1


def test_a_server_that_does_not_age_passes_and_is_started_again_once(tmp_path: Path) -> None:
    trial = run("ageing", tmp_path, within_s=WITHIN_S)
    assert trial.exit == 0, trial.text
    assert trial.judged("alive")["figures"]["restarts"] == 1
