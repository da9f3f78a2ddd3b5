"""The installed command against servers that it did not start, one real run at a time."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from scenarios import library

RUN_MAX_S = 300.0
QUICK = {
    'warmup    = { completed = 20, max = "60s" }': 'warmup    = { completed = 8, max = "60s" }',
    'baseline  = "20s"': 'baseline  = "8s"',
    'trial     = "60s"': 'trial     = "16s"',
    'quiesce   = { every = "30s", max = "60s" }': 'quiesce   = { every = "8s", max = "30s" }',
    'recovery  = "10s"': 'recovery  = "1s"',
    'rate          = "1/s"': 'rate          = "2/s"',
}


@dataclass(frozen=True)
class Ran:
    """A `seatrial` command that has ended."""

    exit: int
    out: str
    err: str
    runs_dir: Path

    def judge(self, name: str) -> dict[str, Any]:
        """What one judge said, from verdict.json."""
        verdict = json.loads((self.runs_dir / "latest" / "verdict.json").read_text())
        return next(each for each in verdict["judges"] if each["name"].startswith(name))

    def series(self, begin: str) -> list[str]:
        """The names of recorded series that begin so."""
        with contextlib.closing(sqlite3.connect(self.runs_dir / "latest" / "run.sqlite")) as history:
            rows = history.execute("SELECT name FROM series WHERE absent IS NULL AND name LIKE ? || '%'", (begin,))
            return [name for (name,) in rows]

    def left_running(self) -> list[str]:
        """Command lines of processes that still work for this run."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if any(str(self.runs_dir) in word for word in words):
                found.append(" ".join(words))
        return found


Seatrial = Callable[..., Ran]


@pytest.fixture
def seatrial(tmp_path: Path) -> Seatrial:
    runs_dir = tmp_path / "runs"

    def call(*arguments: str, timeout_s: float = RUN_MAX_S, kill_in_trial: int | None = None) -> Ran:
        """Run to the end; a process with the pid `kill_in_trial` is killed as soon as the trial has begun."""
        said = []
        with (
            (tmp_path / "stderr").open("w+") as errors,
            subprocess.Popen(
                [str(Path(sys.executable).with_name("seatrial")), *arguments],
                env={**os.environ, "RUNS_DIR": str(runs_dir), "NO_COLOR": "1"},
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as process,
        ):
            late = threading.Timer(timeout_s, process.kill)
            late.start()
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                if kill_in_trial is not None and "trial 0" in line:
                    os.kill(kill_in_trial, signal.SIGKILL)
                    kill_in_trial = None
            code = process.wait()
            late.cancel()
            errors.seek(0)
            return Ran(code, "".join(said), errors.read(), runs_dir)

    return call


def quick(directory: Path, **changes: str) -> str:
    """`your-server` with the same loads and judges in half a minute; `changes` replace texts of it."""
    text = library.find("your-server").read_text()
    for was, becomes in (QUICK | changes).items():
        assert was in text, f"your-server has no longer {was!r}"
        text = text.replace(was, becomes)
    path = directory / "quick.toml"
    path.write_text(text)
    return str(path)
