"""The end of every run, and of `seatrial judge`: judge the history, write verdict and report, print them."""

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from assertions.verdict import Verdict
from harness.report import annotations, markdown, model, terminal
from harness.report.model import Report
from harness.report.write import write


class NotJudgeable(Exception):
    """The directory lacks what a judge needs. The text says which file and why."""


def finalize(run_dir: Path, out: TextIO, environment: Mapping[str, str]) -> int:
    """Judge, write and say; returns the verdict's exit code. A full disk still gets its verdict told.

    Raises NotJudgeable when plan.json or run.sqlite can't be used.
    """
    if note := take_in_spools(run_dir):
        print(f"seatrial: {note}", file=out)
    verdict = judge(run_dir)
    made = model.read(run_dir, verdict)
    files: tuple[str, ...] = ()
    try:
        write_verdict(verdict, run_dir)
        files = (str(write(made, run_dir)[0]),)
    except OSError as problem:
        print(f"seatrial: verdict and report could not be written: {problem}", file=out)
    say(made, out, environment, files)
    return verdict.exit_code


def take_in_spools(run_dir: Path) -> str | None:
    """Complete the history of a run that was killed; nothing changes for one that ended in good order.

    Returns what kept it from doing so (a full disk, a folder we may not write): the run is then judged as it is, and
    its history says that it was cut short. Raises NotJudgeable without a history.
    """
    from harness.record.finish import finish_history
    from harness.record.recorder import HistoryFull

    try:
        finish_history(run_dir)
    except FileNotFoundError as problem:
        if not (run_dir / "plan.json").is_file():
            raise NotJudgeable(f"{run_dir} is not a run: it holds neither plan.json nor run.sqlite") from None
        raise NotJudgeable(f"{problem}: the run ended before it began") from None
    except (HistoryFull, OSError, sqlite3.OperationalError) as problem:
        return f"what the spools still hold could not be taken in: {problem}"
    except sqlite3.DatabaseError as problem:
        raise NotJudgeable(f"{run_dir / 'run.sqlite'}: {problem}") from None
    return None


def judge(run_dir: Path) -> Verdict:
    """Judge the history as it is. The judges are pure: the same history, the same verdict. Raises NotJudgeable."""
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


def write_verdict(verdict: Verdict, run_dir: Path) -> None:
    """verdict.json, whole or not at all. Raises OSError."""
    fresh = run_dir / ".verdict.json.new"
    fresh.write_text(json.dumps(verdict.to_json(), indent=1) + "\n", encoding="utf-8")
    fresh.replace(run_dir / "verdict.json")


def report(run_dir: Path) -> Report:
    """Write report.html, summary.md and junit.xml from what is there; returns the model they were made of."""
    made = model.read(run_dir)
    write(made, run_dir)
    return made


def say(made: Report, out: TextIO, environment: Mapping[str, str], files: tuple[str, ...] = ()) -> None:
    """Print the verdict; on GitHub also the annotations, and append to the job's page."""
    terminal.show(made, out, files=files)
    if annotations.wanted(environment):
        for line in annotations.lines(made):
            print(line, file=out)
    try:
        annotations.publish_summary(markdown.render(made), environment)
    except OSError as problem:
        print(f"seatrial: the job's summary page could not be written: {problem}", file=out)
