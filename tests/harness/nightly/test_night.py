"""Whole nights through the command."""

import contextlib
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from harness.nightly.night import tonight

ROOT = Path(__file__).parents[3]
TINY = """
schema = 1
name   = "tiny"
means  = "plain load in virtual time is not served"
seed   = 5
drive  = "virtual"
phases = { warmup = { completed = 10 }, baseline = "5s", trial = "20s", recovery = "5s", drain_max = "15s" }
load   = [{ id = "chat", rate = "3/s", prompt_tokens = [20, 60], output_tokens = [4, 16] }]
check  = [{ that = "e2e.p50 < 2s" }]
"""
AFLOAT = """
schema = 1
name   = "afloat"
means  = "plain load is not served by the built-in runtime"
seed   = 5
phases = { warmup = { completed = 8 }, baseline = "2s", trial = "8s", recovery = "1s", drain_max = "15s" }
canary = { every = "2s" }
load   = [{ id = "chat", rate = "4/s", prompt_tokens = [20, 60], output_tokens = [4, 16] }]
check  = [{ that = "e2e.p50 < 20s", where = "all" }]
"""


def command(tmp_path: Path, *arguments: str, night: str = "2026-11-28") -> list[str]:
    installed = shutil.which("seatrial", path=str(Path(sys.executable).parent))
    head = [installed] if installed else [sys.executable, "-m", "harness"]
    return [*head, "nightly", *arguments, "--runs-dir", str(tmp_path / "runs"), "--night", night]


def environment(**more: str) -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")} | more


def call(tmp_path: Path, *arguments: str, night: str = "2026-11-28", **more: str) -> "subprocess.CompletedProcess[str]":
    argv = command(tmp_path, *arguments, night=night)
    return subprocess.run(argv, cwd=ROOT, env=environment(**more), capture_output=True, text=True, timeout=300)


def states(tmp_path: Path) -> list[tuple[str, str, str]]:
    with contextlib.closing(sqlite3.connect(tmp_path / "runs" / "trials.sqlite")) as connection:
        return connection.execute("SELECT night, scenario, state FROM trial ORDER BY id").fetchall()


def test_a_night_is_from_noon_to_noon() -> None:
    at = [datetime(2026, 11, day, hour).astimezone() for day, hour in ((28, 12), (28, 23), (29, 3), (29, 11))]
    assert {tonight(moment) for moment in at} == {"2026-11-28"}
    assert tonight(datetime(2026, 11, 29, 12).astimezone()) == "2026-11-29"


@pytest.mark.parametrize("given", ["missing", "empty", "bad"])
def test_a_mistake_of_the_user_is_told_without_a_traceback_and_starts_nothing(tmp_path: Path, given: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.toml").write_text(TINY + "colour = 3")
    done = call(tmp_path, str(tmp_path / given))
    assert done.returncode == 4, done.stderr
    assert done.stderr.startswith("seatrial: ")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_real_night_with_its_controls(tmp_path: Path) -> None:
    folder = tmp_path / "scenarios"
    folder.mkdir()
    (folder / "tiny.toml").write_text(TINY.replace("e2e.p50 < 2s", "e2e.p50 < 1ms"))
    summary = tmp_path / "summary.md"
    done = call(tmp_path, str(folder), GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1, done.stdout + done.stderr
    assert states(tmp_path) == [
        ("2026-11-28", "planted-leak", "FAIL"),
        ("2026-11-28", "planted-drift", "FAIL"),
        ("2026-11-28", "tiny", "FAIL"),
    ]
    page = (tmp_path / "runs" / "nights" / "2026-11-28" / "night.html").read_text()
    assert "e2e.p50 &lt; 1ms" in page
    assert "::error" not in done.stdout, "a planted FAIL is no error of the job"
    assert summary.read_text() == (tmp_path / "runs" / "nights" / "2026-11-28" / "night.md").read_text()
    with contextlib.closing(sqlite3.connect(tmp_path / "runs" / "trials.sqlite")) as connection:
        ((share,),) = connection.execute(
            "SELECT value FROM scalar WHERE metric = 'drift.ttft.p99 < 10% [probe]: share'"
        ).fetchall()
    assert 0.15 <= share <= 0.25


@pytest.mark.soak
@pytest.mark.slow
def test_two_nights_of_a_real_server_are_compared_on_the_page_and_told_to_the_ci(tmp_path: Path) -> None:
    folder = tmp_path / "scenarios"
    folder.mkdir()
    (folder / "afloat.toml").write_text(AFLOAT)
    for night in ("2026-11-27", "2026-11-28"):
        done = call(tmp_path, str(folder), night=night)
        assert done.returncode == 0, done.stdout + done.stderr
    written = tmp_path / "runs" / "nights" / "2026-11-28"
    suites = {suite.get("name"): suite for suite in ET.parse(written / "junit.xml").getroot()}
    assert list(suites) == ["planted-leak", "planted-drift", "afloat"]
    assert [(suite.get("failures"), suite.get("errors")) for suite in suites.values()] == [("0", "0")] * 3
    cases = {str(case.get("name")) for case in suites["afloat"].iter("testcase")}
    assert {"answered", "alive", "tokens", "reclamation", "e2e.p50 < 20s [all]"} <= cases
    page = (written / "night.html").read_text()
    assert "past nights</dt><dd>1<" in page
    assert "No scenario and no judge has another state." in page
    figures = page.split('id="figures"')[1]
    assert re.search(
        r'<th scope="row">afloat</th><td>E2E p50 in the trial</td>(<td class="n">[\d.]+ m?s</td>){3}', figures
    )


@pytest.mark.slow
def test_an_interrupted_night_judges_what_runs_and_a_killed_one_keeps_what_was_done(tmp_path: Path) -> None:
    folder = tmp_path / "scenarios"
    folder.mkdir()
    (folder / "tiny.toml").write_text(TINY)
    for sent, code in ((signal.SIGTERM, 130), (signal.SIGKILL, -9)):
        process = subprocess.Popen(
            command(tmp_path, str(folder)), cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:  # the leak is judged; the drift runs
            if "planted-leak" in line:
                break
        before = states(tmp_path)
        if sent is signal.SIGTERM:
            _until(process, lambda: len(list((tmp_path / "runs").glob("2*/run.sqlite"))) == 2)
        process.send_signal(sent)
        process.communicate(timeout=60)
        assert process.returncode == code
        assert states(tmp_path)[: len(before)] == before
    assert [scenario for _, scenario, _ in states(tmp_path)] == ["planted-leak", "planted-drift", "planted-leak"]
    assert "not run: SIGTERM received" in (tmp_path / "runs" / "nights" / "2026-11-28" / "night.html").read_text()


def _until(process: "subprocess.Popen[str]", true: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for something that a live process does; at once a failure when it ends instead."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"it ended with {process.wait(0.05)}")
