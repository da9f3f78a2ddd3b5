"""One real run at a time, through the installed command, with everything that it started in sight."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

SCENARIO = Path(__file__).with_name("short.toml")
STARTED_MAX_S = 120.0
ENDED_MAX_S = 120.0


@dataclass
class Trial:
    """A `seatrial run` in the middle of its trial."""

    process: "subprocess.Popen[str]"
    runs_dir: Path
    said: list[str] = field(default_factory=list)

    def until(self, text: str) -> None:
        """Read what it prints until a line has `text`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if text in line:
                return
        raise AssertionError(f"it never said {text!r}:\n{''.join(self.said)}")

    def child(self, module: str) -> psutil.Process:
        """The process below us that runs `python -m module`."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            words = process.cmdline()
            if "-m" in words and words[words.index("-m") + 1] == module:
                return process
        raise AssertionError(f"no child runs {module}")

    def end(self) -> int:
        """Wait for it, keep what it said, and check that it left nobody behind."""
        assert self.process.stdout is not None
        self.said += self.process.stdout.read().splitlines(keepends=True)
        return self.process.wait(ENDED_MAX_S)

    @property
    def text(self) -> str:
        """All that it printed."""
        return "".join(self.said)

    def ours(self) -> list[psutil.Process]:
        """Every process that it has started so far."""
        return psutil.Process(self.process.pid).children(recursive=True)


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    """Started and past its baseline. Whatever a test does to it, nothing of it survives the test."""
    yield from run_in(tmp_path)


def run_in(runs_dir: Path) -> Iterator[Trial]:
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("seatrial")), "run", str(SCENARIO)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "RUNS_DIR": str(runs_dir)},
        start_new_session=True,
    )
    made = Trial(process, runs_dir)
    try:
        made.until("trial 0")
        yield made
    finally:
        left = [] if process.poll() is not None else made.ours()
        process.kill()
        for each in left:
            each.send_signal(signal.SIGKILL)
        if process.stdout is not None:
            process.stdout.close()
        process.wait()


def gone(processes: list[psutil.Process], patience_s: float = 15.0) -> bool:
    """Whether all of them end within the patience; a zombie that this container does not reap has ended."""
    _, alive = psutil.wait_procs(processes, timeout=patience_s)
    return all(process.status() == psutil.STATUS_ZOMBIE for process in alive if process.is_running())
