"""One run from start to end: read, plan, drive, judge, report. `seatrial run`, `demo` and `replay` call it."""

import json
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faults import SpecError
from harness import finalize
from harness.costs import cost_table
from harness.discovery import discover
from harness.exits import Exit, Refusal, Trouble
from harness.live.reference import ReferenceFailed
from harness.load.preflight import TargetProblem
from harness.options import COSTS_FILE, OPTIONS_FILE, Outcome, RunOptions
from harness.plan.describe import describe
from harness.plan.occurrences import Occurrence, undeclared
from harness.plan.plan import Plan, make
from harness.plan.target_policy import refused_target
from harness.prepare import prepare
from harness.progress import Progress
from harness.provenance import provenance
from harness.trial.ports import LoadDied
from harness.trial.stop import Stop, StopNow
from runtime.points import catalogue

if TYPE_CHECKING:
    from harness.trial.loop import Reason
    from harness.trial.outcome import Show

Drive = Callable[["Plan", Sequence[Occurrence], Path, Stop, "Show", Callable[[str], None]], "Reason | None"]


def run(options: RunOptions, say: Callable[[str], None] = print) -> Outcome:
    """Make one run and judge it. Raises ScenarioProblems, Refusal and Trouble before any load was sent."""
    document = prepare(options, catalogue())
    refusal = refused_target(document.scenario, options.allow_hosts, allow_command=options.allow_command)
    if refusal is not None:
        raise Refusal(refusal)
    document, found = discover(document)
    cost_table(options.costs, document.scenario.drive)
    plan = make(document, catalogue(), new_run_id(), provenance())
    hidden, drive = _hidden(options, plan), _drive(plan.scenario.drive, options)
    latest = _latest(options.runs_dir)
    directory = make_directory(options, plan, document.source.text)
    for line in found:
        say(line)
    for line in describe(plan):
        say(line)
    say(f"run {plan.run_id} in {directory}")
    try:
        with Stop() as stop, Progress() as progress:
            early = drive(plan, hidden, directory, stop, progress.show, progress.say)
    except (TargetProblem, ReferenceFailed) as problem:
        _never_began(directory, latest, plan.scenario.target.kind)
        raise Refusal(str(problem)) from problem
    except LoadDied as problem:
        raise Trouble(f"the load process did not start: {problem}") from problem
    except StopNow:
        say(f"stopped at once; `seatrial judge {directory}` can judge the recorded part")
        return Outcome(directory, Exit.INTERRUPTED)
    verdict_exit = finalize.finalize(directory, sys.stdout, os.environ)
    interrupted = early is not None and early.by == "signal"
    return Outcome(directory, Exit.INTERRUPTED if interrupted else verdict_exit)


def _drive(name: str, options: RunOptions) -> Drive:
    """Import the drive. A virtual run needs neither torch nor Locust, so only the drive in use is imported."""
    if name == "virtual":
        from harness.virtual.drive import drive as virtual

        virtual = virtual if options.slowing is None else partial(virtual, slowing=options.slowing)
        return virtual if options.costs is None else partial(virtual, costs=options.costs)
    if options.slowing is not None:
        raise Refusal("slowing needs the simulated device of a virtual run")
    from harness.live.drive import drive as live

    return partial(live, allow_command=options.allow_command)


def _hidden(options: RunOptions, plan: Plan) -> list[Occurrence]:
    """The undeclared faults: they are armed, and the plan that the judges read does not contain them."""
    try:
        found = undeclared(options.undeclared, plan.scenario.seed, plan.catalogue)
    except SpecError as error:
        raise Refusal("\n".join(f"--undeclared: {problem}" for problem in error.problems)) from error
    if found and "arm" not in plan.capabilities:
        raise Refusal("--undeclared arms a point inside the built-in runtime, and this target is another one")
    return found


def new_run_id() -> str:
    """A run id that sorts by time (UTC). The random end separates two runs of one second."""
    return f"{datetime.now(UTC):%Y-%m-%d_%H%M%S}_{secrets.token_hex(2)}"


def make_directory(options: RunOptions, plan: Plan, scenario: str) -> Path:
    """Make the run directory with the files that a replay needs, and point `latest` at it. `scenario` is the text
    that was read, because the file may have changed since. Raises Trouble when the directory can't be written."""
    directory = (options.runs_dir / plan.run_id).absolute()
    try:
        directory.mkdir(parents=True)
        (directory / "scenario.toml").write_text(scenario, encoding="utf-8")
        (directory / OPTIONS_FILE).write_text(json.dumps(options.to_json(), indent=1) + "\n")
        if options.costs is not None and options.costs.endswith(".json"):
            shutil.copyfile(options.costs, directory / COSTS_FILE)
        plan.write(directory / "plan.json")
        _point_latest(directory)
    except OSError as error:
        why = error.strerror or error
        raise Trouble(f"the run directory {directory} can't be written: {why}; give another --runs-dir") from error
    return directory


def _latest(runs_dir: Path) -> str | None:
    link = runs_dir / "latest"
    return os.readlink(link) if link.is_symlink() else None


def _never_began(directory: Path, latest: str | None, kind: str) -> None:
    """Point `latest` at the previous run again, because this run sent nothing that can be judged. The directory is
    kept for a target that the run started, because it holds the target's log."""
    if kind == "url":
        shutil.rmtree(directory, ignore_errors=True)
    if latest is None:
        (directory.parent / "latest").unlink(missing_ok=True)
    else:
        _point_latest(directory.with_name(latest))


def _point_latest(directory: Path) -> None:
    fresh = directory.parent / f".latest.{directory.name}"
    fresh.symlink_to(directory.name)
    os.replace(fresh, directory.parent / "latest")
