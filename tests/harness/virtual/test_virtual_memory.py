"""Memory of launches in virtual time: the faults of the pools fire, are felt, and cost nobody a wrong token."""

import sqlite3
from pathlib import Path

from tests.harness.virtual.test_virtual_runs import CALM, judges, small

FAULT = """
[[fault]]
id = "f"
do = "{do}"
scope = {{ pool = "activation" }}
when = {{ at = "3s", times = {times} }}
[fault.expect]
outcomes = ["ok", "refused"]
{more}
"""


def test_a_burst_without_memory_for_launches_is_felt_and_over(tmp_path: Path) -> None:
    more = 'victims = "all"\nrecover = "10s"\n'
    outcome = small(tmp_path, CALM + FAULT.format(do="memory.alloc: oom", times=9, more=more))
    assert outcome.exit == 0
    found = judges(outcome)
    assert {found[name] for name in ("answered", "tokens", "invariants", "fired", "reclamation")} == {"PASS"}


def test_a_lost_reset_of_a_launch_is_seen_by_the_audit_and_explained_by_its_fault(tmp_path: Path) -> None:
    outcome = small(tmp_path, CALM + FAULT.format(do="memory.reset: drop", times=2, more=""))
    assert outcome.exit == 0
    found = judges(outcome)
    assert (found["fired"], found["reclamation"], found["tokens"]) == ("PASS", "PASS", "PASS")
    connection = sqlite3.connect(outcome.run_dir / "run.sqlite")
    lost = connection.execute("SELECT request FROM fire ORDER BY hit").fetchall()
    held = connection.execute(
        "SELECT DISTINCT owner FROM audit WHERE scope = 'drain' AND name = 'activation_spans' ORDER BY owner"
    ).fetchall()
    connection.close()
    assert len(lost) == 2
    assert sorted(lost) == held


def test_a_lost_reset_that_nobody_declared_fails_with_its_step(tmp_path: Path) -> None:
    outcome = small(tmp_path, CALM, undeclared=("memory.reset: drop",))
    assert outcome.exit == 1
    assert judges(outcome)["reclamation"] == "FAIL"
    assert "step-" in (outcome.run_dir / "verdict.json").read_text()
