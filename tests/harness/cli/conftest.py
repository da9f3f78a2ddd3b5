import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import main
from tests.harness.report.story import Story
from tests.harness.report.synthetic import write

ROOT = Path(__file__).resolve().parents[3]
Seatrial = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def seatrial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Seatrial:
    """The command in this process, with an empty runs folder; no GitHub, whatever runs these tests."""
    for name in [name for name in os.environ if name.startswith("GITHUB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.chdir(ROOT)

    def call(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        with monkeypatch.context() as changed:
            for name, value in environment.items():
                changed.setenv(name, value)
            capfd.readouterr()
            code = main(arguments)
        return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())

    return call


@pytest.fixture
def process(tmp_path: Path) -> Seatrial:
    """The command in a process of its own, likewise."""

    def call(*arguments: str, python: tuple[str, ...] = (), **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, *python, "-m", "harness", *arguments],
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", "RUNS_DIR": str(tmp_path / "runs"), "TMPDIR": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            timeout=180,
        )

    return call


@pytest.fixture(scope="session")
def passed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory to look at; its name is a run id."""
    return write(tmp_path_factory.mktemp("cli-runs") / "20261129_7f3a", Story(minutes=1, state="PASS", hostile=False))
