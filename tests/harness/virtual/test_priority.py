"""A load's priority decides who runs: judged by the library scenario, in virtual time and live."""

from pathlib import Path

import pytest

from assertions.verdict import State
from scenarios import library
from tests.faults.trials.live import run_live
from tests.faults.trials.virtual import run

WHOLE = library.find("pr-priority").read_text(encoding="utf-8")
SCENARIO = WHOLE.replace('trial = "60s"', 'trial = "20s"').replace('"2/s"', '"5/s"')  # as many that are urgent
CHECK = "ttft.p95 < 60ms [urgent]"
PREEMPTED = """SELECT r.load, sum(s.preempted) FROM served s JOIN request r ON r.id = s.request
               GROUP BY r.load HAVING sum(s.preempted) > 0"""


def test_who_is_urgent_takes_the_place_of_who_runs_and_nobody_loses_a_token(tmp_path: Path) -> None:
    ran = run(SCENARIO, tmp_path)
    assert ran.verdict.state is State.PASS
    preempted = dict(ran.rows(PREEMPTED))
    assert preempted["bulk"] > 50
    assert "urgent" not in preempted


def test_without_the_priority_the_same_scenario_fails(tmp_path: Path) -> None:
    ran = run(SCENARIO.replace("priority      = 1\n", ""), tmp_path)
    assert ran.not_passed == {CHECK}
    assert ran.rows(PREEMPTED) == []


@pytest.mark.soak  # virtual: test_who_is_urgent_takes_the_place_of_who_runs_and_nobody_loses_a_token
@pytest.mark.slow
@pytest.mark.live
@pytest.mark.timeout(300)
def test_the_priority_of_a_load_reaches_a_real_server(tmp_path: Path) -> None:
    text = SCENARIO.replace('drive  = "virtual"', 'drive  = "live"')
    ran = run_live(text.replace("60ms", "5s"), tmp_path)
    passed = ("answered", "alive", "tokens", "invariants", "reclamation")
    assert {ran.states[name] for name in passed} == {"PASS"}, ran.states
    preempted = dict(ran.rows(PREEMPTED))
    assert preempted["bulk"] > 0
    assert "urgent" not in preempted
