"""An hour of load finds what a minute cannot: one KV block in 500 cancels, 2 KiB of each request. For the nights."""

from pathlib import Path

import pytest

from tests.planted.live import run

pytestmark = [pytest.mark.slow, pytest.mark.live, pytest.mark.soak, pytest.mark.timeout(3 * 3600)]
WHOLE_S = 5400.0
MIB = 2**20


def test_the_healthy_runtime_passes_an_hour_with_three_breaks(tmp_path: Path) -> None:
    trial = run("hour-soak", tmp_path, within_s=WHOLE_S)
    assert trial.exit == 0, trial.text


def test_two_slow_leaks_are_found_with_owner_rate_and_the_time_it_took(tmp_path: Path) -> None:
    trial = run("hour-soak", tmp_path, ("block_lost_on_cancels", "kept_per_request"), within_s=WHOLE_S)
    assert trial.exit == 1, trial.text
    blocks = trial.judged("reclamation")
    assert blocks["state"] == "FAIL"
    assert 1 <= blocks["figures"]["per_1000_cancels"] <= 2
    memory = trial.judged("leak.rss_anon < 32MiB/h")
    assert (memory["state"], memory["owner"]) == ("FAIL", "server")
    assert memory["figures"]["low"] > 32 * MIB
    assert memory["figures"]["certain_s"] < 45 * 60, "sure well before the end"
