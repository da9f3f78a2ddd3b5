"""Every part of a live run is killed in the middle of it: nothing is lost, nobody is left, and the verdict follows."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.conftest import Trial, gone, run_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def verdict(runs_dir: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((runs_dir / "latest" / "verdict.json").read_text())
    return said


def states(runs_dir: Path) -> dict[str, str]:
    return {judge["name"]: judge["state"] for judge in verdict(runs_dir)["judges"]}


def test_kill_of_the_serving_process_fails_alive_and_the_run_goes_on_with_the_next_one(trial: Trial):
    ours = trial.ours()
    serving = trial.child("runtime.server.main")
    serving.send_signal(signal.SIGKILL)
    assert trial.end() == 1
    assert states(trial.runs_dir)["alive"] == "FAIL"
    assert f"the server exited with code -9: pid {serving.pid}" in trial.text
    assert states(trial.runs_dir)["reclamation"] == "PASS"
    assert gone(ours)


def test_kill_of_the_supervisor_ends_the_run_as_a_fail_with_its_partial_history_judged(trial: Trial):
    ours = trial.ours()
    trial.child("runtime.server").send_signal(signal.SIGKILL)
    assert trial.end() == 1
    assert "the run ends early: the server ended with signal SIGKILL" in trial.text
    assert states(trial.runs_dir)["alive"] == "FAIL"
    assert gone(ours)


def test_kill_of_the_load_process_is_unknown_and_said_to_be_ours(trial: Trial):
    ours = trial.ours()
    trial.child("harness.load").send_signal(signal.SIGKILL)
    assert trial.end() == 2
    assert "the run ends early: the load process ended with signal SIGKILL" in trial.text
    said = states(trial.runs_dir)
    assert "FAIL" not in said.values()
    assert said["alive"] == "UNKNOWN"
    assert gone(ours)


def test_kill_of_the_harness_leaves_no_orphan_and_the_run_can_be_judged_afterwards(trial: Trial):
    ours = trial.ours()
    trial.process.send_signal(signal.SIGKILL)
    assert trial.end() == -signal.SIGKILL
    assert gone(ours)
    judged = subprocess.run(
        [str(Path(sys.executable).with_name("seatrial")), "judge", "latest"],
        env={**os.environ, "RUNS_DIR": str(trial.runs_dir)},
        capture_output=True,
        text=True,
    )
    assert judged.returncode == 2, judged.stdout
    assert "the harness died" in judged.stdout
    assert '"e":"reply"' in (trial.runs_dir / "latest" / "requests.jsonl").read_text()
    assert "FAIL" not in states(trial.runs_dir).values()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_exits_130_with_what_it_had_judged(trial: Trial, number: signal.Signals):
    ours = trial.ours()
    trial.process.send_signal(number)
    assert trial.end() == 130
    assert f"the run ends early: {number.name} received" in trial.text
    said = states(trial.runs_dir)
    assert "FAIL" not in said.values()
    assert said["alive"] == "UNKNOWN"
    assert gone(ours)


def test_second_interrupt_ends_at_once(trial: Trial):
    ours = trial.ours()
    trial.process.send_signal(signal.SIGINT)
    trial.until("the run ends early")
    trial.process.send_signal(signal.SIGINT)
    assert trial.end() == 130
    assert gone(ours)


def test_full_disk_ends_the_run_as_unknown_and_says_so(tmp_path: Path):
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)], check=True)
    try:
        for trial in run_in(small):
            ours = trial.ours()
            _fill(small)
            assert trial.end() == 2, trial.text
            assert "disk is full" in trial.text
            assert gone(ours)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def _fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            return
