"""One small trial in virtual time, in this process: its verdict, and its history to ask."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assertions.verdict import Judged, State, Verdict
from harness.finalize import judge
from harness.options import RunOptions
from harness.plan.plan import make
from harness.prepare import prepare
from harness.provenance import Provenance
from harness.run import make_directory, new_run_id
from harness.trial.stop import Stop
from harness.virtual.drive import drive
from runtime.points import catalogue

HERE = Provenance("trial of a test", None, False)


@dataclass(frozen=True)
class Trial:
    """A finished run."""

    verdict: Verdict
    directory: Path

    @property
    def not_passed(self) -> set[str]:
        """The required judges that did not say PASS."""
        return {each.name for each in self.verdict.judges if each.state in (State.FAIL, State.UNKNOWN)}

    def judged(self, name: str) -> Judged:
        """One judge's words."""
        return next(each for each in self.verdict.judges if each.name == name)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The answer of the history to a question in SQL."""
        return query(self.directory, sql, *values)


def query(directory: Path, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """The answer of the history in this run directory."""
    connection = sqlite3.connect(directory / "run.sqlite")
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def run(scenario: str, folder: Path) -> Trial:
    """Run the scenario with this text to its verdict, below `folder`. No report is written."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "scenario.toml"
    file.write_text(scenario)
    options = RunOptions(str(file), folder / "runs")
    document = prepare(options, catalogue())
    plan = make(document, catalogue(), new_run_id(), HERE)
    directory = make_directory(options, plan, document.source.text)
    drive(plan, [], directory, Stop(), lambda *seen: None, lambda line: None)
    return Trial(judge(directory), directory)
