"""A fault that says `persist` outlives the server's process and not the trial, by the installed command."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from assertions.history import History

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_persistent_fault_fires_in_both_processes_and_is_healed_with_the_trial(tmp_path: Path):
    done = subprocess.run(
        [str(Path(sys.executable).with_name("seatrial")), "run", str(Path(__file__).with_name("persist.toml"))],
        env={**os.environ, "RUNS_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    verdict = json.loads((tmp_path / "latest" / "verdict.json").read_text())
    states = {judge["name"]: judge["state"] for judge in verdict["judges"]}
    assert {states[name] for name in ("answered", "alive", "tokens", "fired", "reclamation")} == {"PASS"}, done.stdout
    with History.open(tmp_path / "latest" / "run.sqlite") as history:
        death_ns = next(event.t_ns for event in history.events if event.kind == "exit")
        stays = next(row for row in history.faults if row.id == "stays")
        fires = [fire.t_ns for fire in history.fires if fire.fault == "stays"]
        recovery = next(phase for phase in history.phases if phase.name == "recovery")
        assert not [event for event in history.events if "unknown_fault" in event.detail]
    assert min(fires) < death_ns < max(fires)
    assert stays.healed_by == "harness"
    assert stays.arm_ns is not None and stays.arm_ns < death_ns
    assert stays.heal_ns is not None and abs(stays.heal_ns - recovery.start_ns) < 2e9
    assert max(fires) <= stays.heal_ns
    assert _armings(tmp_path / "latest" / "run.sqlite") == {"stays": 2, "kill": 1}


def _armings(path: Path) -> dict[str, int]:
    connection = sqlite3.connect(path)
    try:
        return dict(connection.execute("SELECT id, count(*) FROM fault GROUP BY id"))
    finally:
        connection.close()
