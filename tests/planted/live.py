"""A real trial through the installed command, with bugs planted in its server."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SITE = HERE / "site"
COMMAND = Path(sys.executable).with_name("seatrial")
TRIAL_S_MAX = 150.0
ATTEMPTS = 2


@dataclass(frozen=True)
class Trial:
    """What came of one run: its exit code, all it said, and its directory."""

    exit: int
    text: str
    directory: Path

    @property
    def log(self) -> str:
        """What the server said."""
        return (self.directory / "server.log").read_text()

    def judged(self, name: str) -> dict[str, Any]:
        """One judge's words in verdict.json."""
        return next(judge for judge in self.verdict["judges"] if judge["name"] == name)

    @property
    def verdict(self) -> dict[str, Any]:
        verdict: dict[str, Any] = json.loads((self.directory / "verdict.json").read_text())
        return verdict

    @property
    def failed(self) -> set[str]:
        """The judges that said FAIL."""
        return {judge["name"] for judge in self.verdict["judges"] if judge["state"] == "FAIL"}

    @property
    def flat(self) -> str:
        """The text without its line breaks, so that a sentence can be found."""
        return " ".join(self.text.split())


def run(scenario: str, runs_dir: Path, planted: Sequence[str] = (), within_s: float = TRIAL_S_MAX) -> Trial:
    """Run `scenario`.toml of this folder or of the library; one at a time on this machine, whatever runs the tests.

    Tried again when the only trouble is that our own load was late: then the machine was too busy to try anything.
    """
    for _ in range(ATTEMPTS):
        trial = _once(scenario, runs_dir, planted, within_s)
        if trial.exit != 2 or trial.judged("load")["state"] != "UNKNOWN":
            break
    return trial


def _once(scenario: str, runs_dir: Path, planted: Sequence[str], within_s: float) -> Trial:
    own = HERE / f"{scenario}.toml"
    with _alone():
        text, code = _finish(
            subprocess.Popen(
                [str(COMMAND), "run", str(own) if own.exists() else scenario],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=_environment(runs_dir, planted),
                start_new_session=True,
            ),
            within_s,
        )
    assert (runs_dir / "latest").exists(), f"nothing was run:\n{text}"
    return Trial(code, text, (runs_dir / "latest").resolve())


def _environment(runs_dir: Path, planted: Sequence[str]) -> dict[str, str]:
    """Children inherit it; the healthy run gets the same hook and no names."""
    path = os.pathsep.join([str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": path, "RUNS_DIR": str(runs_dir)}
    return env | {"SEATRIAL_PLANTED": ",".join(planted)}


def _finish(process: "subprocess.Popen[str]", within_s: float) -> tuple[str, int]:
    """Its output and exit code. However this ends, nothing of it is left: its children die with it."""
    try:
        text, _ = process.communicate(timeout=within_s)
        return text, process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        raise AssertionError(f"the trial did not end within {within_s:g} s:\n{text}") from None
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise


@contextmanager
def _alone() -> Iterator[None]:
    """Two live trials at once would measure each other; pytest-xdist knows nothing of that."""
    with (Path(tempfile.gettempdir()) / "seatrial-live-trial.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
