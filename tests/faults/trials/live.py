"""One trial of a real server by the installed command: the states of its judges, and its history to ask."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.trials.virtual import query


@dataclass(frozen=True)
class LiveTrial:
    """A finished run."""

    states: dict[str, str]
    """State of each judge by its name."""
    directory: Path

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The answer of the history to a question in SQL."""
        return query(self.directory, sql, *values)


def run_live(scenario: str, folder: Path) -> LiveTrial:
    """Run the scenario with this text to its verdict, below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "scenario.toml"
    file.write_text(scenario)
    done = subprocess.run(
        [str(Path(sys.executable).with_name("seatrial")), "run", str(file)],
        env={**os.environ, "RUNS_DIR": str(folder / "runs")},
        capture_output=True,
        text=True,
        timeout=280,
    )
    latest = folder / "runs" / "latest"
    assert latest.exists(), done.stdout + done.stderr
    verdict = json.loads((latest / "verdict.json").read_text())
    return LiveTrial({judge["name"]: judge["state"] for judge in verdict["judges"]}, latest.resolve())
