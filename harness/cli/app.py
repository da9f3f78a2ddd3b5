"""The commands. Each one imports its dependencies when it is called, and returns an exit code."""

import json
import os
import sqlite3
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.run_dirs import find
from harness.cli.run_options import Seed, refused, takes_run_options
from harness.exits import HELP, Exit, Refusal
from harness.options import RunOptions

RunsDir = Annotated[
    Path, typer.Option("--runs-dir", envvar="RUNS_DIR", help="Folder that holds the run directories.", metavar="DIR")
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run directory, a run id or the end of one, or `latest`.")]
Undeclared = Annotated[
    list[str] | None,
    typer.Option(
        help='Arm "POINT: ACTION" without telling the judges, to test whether the scenario detects it.', metavar="DO"
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(help="Permit load on this host, which is not loopback. Repeatable.", metavar="HOST:PORT"),
]
AllowCommand = Annotated[
    bool,
    typer.Option("--allow-command", help="Permit a scenario in a run directory to start its target.command."),
]
ReportOnly = Annotated[
    bool, typer.Option("--report-only", help="Exit 0 for every verdict, so that a CI job does not fail.")
]

app = typer.Typer(
    name="seatrial",
    help="Test an AI inference runtime under load and injected faults, and judge it from recorded evidence.",
    epilog=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", is_eager=True, help="Print version and commit, and exit.")] = False,
) -> None:
    if show:
        from harness.provenance import provenance

        made = provenance()
        print(f"seatrial {made.seatrial} {made.commit or 'no commit'}{' (dirty)' if made.dirty else ''}")
        raise typer.Exit(0)


@app.command(epilog=HELP)
def doctor(runs_dir: RunsDir = Path("runs")) -> int:
    """Check that this machine can run a trial (exit 0: yes, 3: no)."""
    from harness.cli.doctor import examine, show

    return show(examine(runs_dir))


@app.command(epilog=HELP)
def demo(seed: Seed = None, runs_dir: RunsDir = Path("runs")) -> int:
    """Detect a planted memory leak in under a minute.

    An undeclared fault makes the built-in runtime leak KV blocks. The judges detect the leak and report its owner and
    rate, so the expected exit code is 1.
    """
    from harness.cli.trial import trial

    return trial(RunOptions("demo", runs_dir, seed, undeclared=("memory.free: drop",)))


@app.command(epilog=HELP)
@takes_run_options
def run(
    options: RunOptions,
    allow_host: AllowHost = None,
    undeclared: Undeclared = None,
    runs_dir: RunsDir = Path("runs"),
    report_only: ReportOnly = False,
) -> int:
    """Run a scenario, judge the run, and write the report."""
    from harness.cli.trial import trial

    hosts, hidden = tuple(allow_host or ()), tuple(undeclared or ())
    with refused():
        # The user named the scenario, which permits the program that it may name as its target.
        options = replace(options, allow_hosts=hosts, allow_command=True, undeclared=hidden, runs_dir=runs_dir)
    return trial(options, report_only=report_only)


@app.command(epilog=HELP)
def nightly(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of scenarios (*.toml), run in order of name.")],
    runs_dir: RunsDir = Path("runs"),
    only_virtual: Annotated[
        bool, typer.Option("--only-virtual", help='Skip scenarios that do not have drive = "virtual".')
    ] = False,
    allow_host: AllowHost = None,
    allow_command: AllowCommand = False,
    night: Annotated[
        str | None, typer.Option(help="Date on which the night began. Default: today.", metavar="DATE")
    ] = None,
) -> int:
    """Run a folder of scenarios and compare with last night.

    Each scenario runs in its own process. The results go into trials.sqlite and one page. Each night also runs two
    positive controls, a planted leak and a planted drift; if a control is not detected, the night is UNKNOWN.
    """
    from harness.nightly.night import NightOptions, run_night

    with refused():
        options = NightOptions(folder, runs_dir, only_virtual, tuple(allow_host or ()), night, allow_command)
    return run_night(options, os.environ, partial(print, flush=True))  # a log that is followed over hours


@app.command(epilog=HELP)
def library(
    coverage: Annotated[
        bool,
        typer.Option("--coverage", help="Run the virtual scenarios and show which paths of the runtime they take."),
    ] = False,
) -> int:
    """List the scenarios that are shipped. A path of the runtime that none takes is an error of --coverage (exit 1)."""
    from harness.cli.library import show, show_coverage

    return show_coverage() if coverage else show()


@app.command(epilog=HELP)
def check(
    scenarios: Annotated[list[str], typer.Argument(metavar="SCENARIO", help="Files or library names.")],
) -> int:
    """Check scenarios and list every problem.

    Each problem is shown with line, column and remedy. Nothing is started.
    """
    from harness.cli.check import check_all

    return check_all(scenarios)


@app.command(epilog=HELP)
@takes_run_options
def plan(
    options: RunOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print plan.json instead.")] = False,
) -> int:
    """Show what a run would do and cost.

    The output lists phases, faults, the number of requests and tokens, the smallest effect that each judge can
    detect, and the checks that can't be judged. Nothing is started.
    """
    from harness.costs import cost_table
    from harness.discovery import discover
    from harness.plan.describe import describe
    from harness.plan.plan import make
    from harness.prepare import prepare
    from harness.provenance import provenance
    from runtime.points import catalogue

    document, found = discover(prepare(options, catalogue()))
    table = cost_table(options.costs, document.scenario.drive)
    made = make(document, catalogue(), "planned", provenance())
    lines = [*found, *describe(made, table.words() if table is not None else None)]
    print(json.dumps(made.to_json(), indent=1) if as_json else "\n".join(lines))
    return Exit.PASS


@app.command(epilog=HELP)
def faults(
    point: Annotated[
        str | None, typer.Argument(metavar="[POINT]", help="Describe one point, such as kv.take, in full.")
    ] = None,
    layer: Annotated[str | None, typer.Option(help="List only the points of this layer.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """List the fault points and their actions.

    Each action is shown with its symptom: the independent sign, seen outside the injector, that the fault had an
    effect.
    """
    from harness.cli.catalogue import show

    return show(point, layer, as_json=as_json)


@app.command(
    epilog=HELP,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def serve(context: typer.Context) -> int:
    """Start the built-in server without a trial."""
    from runtime.server.supervisor import main as supervise

    return supervise(context.args)


@app.command(epilog=HELP)
def calibrate(
    out: Annotated[
        Path | None, typer.Option(help="Write the table to this file. Default: print it.", metavar="FILE")
    ] = None,
    name: Annotated[
        str, typer.Option(help="Name of the table in the reports of virtual runs.", metavar="NAME")
    ] = "cpu",
    threads: Annotated[int, typer.Option(help="Number of torch threads.", min=1)] = 1,
) -> int:
    """Measure launch costs on this machine for virtual runs."""
    from runtime.calibrate import main as measure

    words = ["--name", name, "--threads", str(threads)]
    return measure(words if out is None else [*words, "--out", str(out)])


@app.command(epilog=HELP)
def judge(run: Run = "latest", runs_dir: RunsDir = Path("runs"), report_only: ReportOnly = False) -> int:
    """Judge a recorded run again."""
    from harness import finalize
    from harness.report.source import NoRun

    try:
        code = finalize.finalize(find(run, runs_dir), sys.stdout, os.environ)
    except (finalize.NotJudgeable, NoRun) as problem:
        raise Refusal(str(problem)) from None
    return Exit.PASS if report_only else code


@app.command(epilog=HELP)
def report(run: Run = "latest", runs_dir: RunsDir = Path("runs")) -> int:
    """Write the report of a recorded run again.

    Writes report.html, summary.md and junit.xml. Exits 0 when they are written, for every verdict.
    """
    from harness import finalize
    from harness.report.source import NoRun

    try:
        written = finalize.report(find(run, runs_dir))
    except NoRun as problem:
        raise Refusal(str(problem)) from None
    print("\n".join(str(path) for path in written))
    return Exit.PASS


@app.command(epilog=HELP)
def replay(
    run: Run = "latest",
    seed: Seed = None,
    allow_host: AllowHost = None,
    allow_command: AllowCommand = False,
    runs_dir: RunsDir = Path("runs"),
) -> int:
    """Repeat a recorded run.

    Uses the scenario, seed and options of the run directory. Permissions are never read from it: give --allow-host
    and --allow-command again.
    """
    from harness.cli.trial import replayed

    return replayed(run, runs_dir, seed, tuple(allow_host or ()), allow_command=allow_command)


@app.command(epilog=HELP)
def digest(
    run: Run = "latest",
    runs_dir: RunsDir = Path("runs"),
    tables: Annotated[bool, typer.Option("--tables", help="Print one digest for each table.")] = False,
) -> int:
    """Print a digest of a run's recorded rows.

    The digest covers the deterministic tables. Two virtual runs with the same seed have the same digest.
    """
    from harness.record.digest import digest as digest_of
    from harness.record.digest import table_digests

    database = find(run, runs_dir) / "run.sqlite"
    if not database.is_file():
        raise Refusal(f"{database.parent} is not a run: it holds no run.sqlite")
    try:
        parts = [f"{value}  {table}" for table, value in table_digests(database).items()] if tables else []
        print("\n".join(parts or [digest_of(database)]))
    except sqlite3.DatabaseError as problem:
        raise Refusal(f"{database}: {problem}") from None
    return Exit.PASS
