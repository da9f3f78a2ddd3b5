"""The end of every run and of `seatrial judge`: judge the history, write verdict and report, print the verdict."""

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from assertions.verdict import Verdict
from harness.report import annotations, markdown, model, terminal
from harness.report.model import Report
from harness.report.write import write, write_files


class NotJudgeable(Exception):
    """The run directory lacks a file that judging needs. The text names the file and the reason."""


def finalize(run_dir: Path, out: TextIO, environment: Mapping[str, str]) -> int:
    """Judge the run, write and print the verdict; return its exit code. On a full disk the verdict is still printed.

    Raises NotJudgeable when plan.json or run.sqlite can't be used.
    """
    if note := import_spools(run_dir):
        print(f"seatrial: {note}", file=out)
    verdict = judge(run_dir)
    report_model = model.read(run_dir, verdict)
    files: tuple[str, ...] = ()
    try:
        write_files(run_dir, {"verdict.json": json.dumps(verdict.to_json(), indent=1) + "\n"})
        files = (str(write(report_model, run_dir)[0]),)
    except OSError as problem:
        print(f"seatrial: verdict and report could not be written: {problem}", file=out)
    show(report_model, out, environment, files)
    return verdict.exit_code


def import_spools(run_dir: Path) -> str | None:
    """Complete the history of a run that was killed. The history of a run that ended normally does not change.

    Returns None, or the reason why the import failed, such as a full disk or a read-only folder. The run is then
    judged as it is, and its history says that it ended early. Raises NotJudgeable without a history.
    """
    from harness.record.canary import read_reference
    from harness.record.recorder import HistoryFull, Recorder

    if not (run_dir / "run.sqlite").is_file():
        if not (run_dir / "plan.json").is_file():
            raise NotJudgeable(f"{run_dir} is not a run: it holds neither plan.json nor run.sqlite")
        raise NotJudgeable(f"{run_dir} holds no run.sqlite: the run ended before it recorded anything")
    reference = run_dir / "reference.json"
    try:
        with Recorder(run_dir, 0, read_reference(reference) if reference.is_file() else None):
            pass  # opening and closing it imports all lines of the spools, and none twice
    except (HistoryFull, OSError, sqlite3.OperationalError) as problem:
        return f"the spools could not be imported into run.sqlite: {problem}"
    except sqlite3.DatabaseError as problem:
        raise NotJudgeable(f"{run_dir / 'run.sqlite'}: {problem}") from None
    return None


def judge(run_dir: Path) -> Verdict:
    """Judge the history as it is. Judges are pure: equal histories give equal verdicts. Raises NotJudgeable."""
    from assertions.history import History
    from assertions.judge import judge as judge_history
    from assertions.plan_view import PlanView

    try:
        plan_view = PlanView.from_plan(json.loads((run_dir / "plan.json").read_text(encoding="utf-8")))
    except OSError as problem:
        raise NotJudgeable(f"{run_dir} is not a run that can be judged: plan.json: {problem.strerror}") from None
    except (KeyError, TypeError, ValueError) as problem:
        raise NotJudgeable(f"{run_dir / 'plan.json'} is not a plan of this version: {problem!r}") from None
    try:
        with History.open(run_dir / "run.sqlite") as history:
            return judge_history(history, plan_view)
    except (FileNotFoundError, sqlite3.DatabaseError) as problem:
        raise NotJudgeable(f"{run_dir / 'run.sqlite'}: {problem}") from None


def report(run_dir: Path) -> tuple[Path, ...]:
    """Write report.html, summary.md and junit.xml of a recorded run; return their paths."""
    return write(model.read(run_dir), run_dir)


def show(report: Report, out: TextIO, environment: Mapping[str, str], files: tuple[str, ...] = ()) -> None:
    """Print the verdict. In a GitHub job, also print annotations and append to the job's summary page."""
    terminal.show(report, out, files=files)
    if annotations.wanted(environment):
        for line in annotations.lines(report):
            print(line, file=out)
    try:
        annotations.publish_summary(markdown.render(report), environment)
    except OSError as problem:
        print(f"seatrial: the job's summary page could not be written: {problem}", file=out)
