"""A fault that can't fire is no green run, by the installed command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def test_fault_that_never_fired_makes_the_run_unknown_and_nothing_else_fails(tmp_path: Path):
    done = subprocess.run(
        [str(Path(sys.executable).with_name("seatrial")), "run", str(Path(__file__).with_name("unfired.toml"))],
        env={**os.environ, "RUNS_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 2, done.stdout
    verdict = json.loads((tmp_path / "latest" / "verdict.json").read_text())
    states = {judge["name"]: judge["state"] for judge in verdict["judges"] if judge["level"] == "required"}
    assert states.pop("fired") == "UNKNOWN"
    assert set(states.values()) <= {"PASS", "NOT_JUDGED", "UNKNOWN"}
    assert states["answered"] == states["tokens"] == states["reclamation"] == "PASS"
    assert "never#0" in done.stdout
