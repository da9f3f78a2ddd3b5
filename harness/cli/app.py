"""The commands. Each one is short, imports what it needs inside, and returns an exit code."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.asked import Seed, takes_asked
from harness.exits import HELP

if TYPE_CHECKING:
    from harness.options import RunOptions

RunsDir = Annotated[
    Path, typer.Option("--runs-dir", envvar="RUNS_DIR", help="Folder that holds the run directories.", metavar="DIR")
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run directory, a run id or the end of one, or `latest`.")]
Undeclared = Annotated[
    list[str] | None,
    typer.Option(help='Arm "POINT: ACTION" and tell no judge: does your scenario catch it?', metavar="DO"),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(help="Permit load on this target that is not loopback; may be repeated.", metavar="HOST:PORT"),
]
AllowCommand = Annotated[
    bool,
    typer.Option("--allow-command", help="Permit the program that a scenario kept in a run directory would start."),
]
ReportOnly = Annotated[
    bool, typer.Option("--report-only", help="Exit 0 whatever the verdict, for a job that shall not gate yet.")
]

app = typer.Typer(
    name="seatrial",
    help="Sea trials for AI inference runtimes: load, faults, and a verdict from recorded evidence.",
    epilog=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[
        bool, typer.Option("--version", is_eager=True, help="Print version and commit, and leave.")
    ] = False,
) -> None:
    if show:
        from harness.provenance import provenance

        made = provenance()
        print(f"seatrial {made.seatrial} {made.commit or 'no commit'}{' (dirty)' if made.dirty else ''}")
        raise typer.Exit(0)


@app.command(epilog=HELP)
def doctor(runs_dir: RunsDir = Path("runs")) -> int:
    """Can this machine run a trial? (0 yes, 3 no)"""
    from harness.cli.doctor import examine, show

    return show(examine(runs_dir))


@app.command(epilog=HELP)
def demo(seed: Seed = None, runs_dir: RunsDir = Path("runs")) -> int:
    """Find a planted leak, in under a minute.

    A fault that no judge is told of makes the built-in runtime keep KV blocks. The demo exits 1: it is found, with
    owner and rate.
    """
    from harness.cli.trial import trial
    from harness.options import RunOptions

    return trial(RunOptions("demo", runs_dir, seed, undeclared=("memory.free: drop",)))


@app.command(epilog=HELP)
@takes_asked
def run(
    asked: "RunOptions",
    allow_host: AllowHost = None,
    undeclared: Undeclared = None,
    runs_dir: RunsDir = Path("runs"),
    report_only: ReportOnly = False,
) -> int:
    """Run a scenario, judge it, and write its report."""
    from harness.cli.asked import refused
    from harness.cli.trial import trial

    hosts, hidden = tuple(allow_host or ()), tuple(undeclared or ())
    with refused():
        # The scenario was typed, and with it the program that it may name as its target.
        asked = replace(asked, allow_hosts=hosts, allow_command=True, undeclared=hidden, runs_dir=runs_dir)
    return trial(asked, report_only=report_only)


@app.command(epilog=HELP)
def nightly(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Every *.toml of it, in order of name.")],
    runs_dir: RunsDir = Path("runs"),
    only_virtual: Annotated[
        bool, typer.Option("--only-virtual", help='Leave out scenarios without drive = "virtual".')
    ] = False,
    allow_host: AllowHost = None,
    allow_command: AllowCommand = False,
    night: Annotated[
        str | None, typer.Option(help="The date on which the night began, instead of today's.", metavar="DATE")
    ] = None,
) -> int:
    """Run a folder of scenarios, and compare with last night.

    One process for each, results in trials.sqlite, one page. Each night also carries a planted leak and a planted
    drift: where they are not found, the night is UNKNOWN.
    """
    from harness.cli.nightly import run_night

    return run_night(
        folder,
        runs_dir,
        only_virtual=only_virtual,
        allow_hosts=tuple(allow_host or ()),
        allow_command=allow_command,
        night=night,
    )


@app.command(epilog=HELP)
def check(
    scenarios: Annotated[list[str], typer.Argument(metavar="SCENARIO", help="Files or library names.")],
) -> int:
    """Say all that is wrong with scenarios.

    Every problem at once, with line, column and remedy. Starts nothing.
    """
    from harness.cli.scenarios import check_all

    return check_all(scenarios)


@app.command(epilog=HELP)
@takes_asked
def plan(
    asked: "RunOptions",
    as_json: Annotated[bool, typer.Option("--json", help="Print plan.json instead.")] = False,
) -> int:
    """Show what a run would do and cost.

    Phases, faults, requests and tokens, the smallest effect that each judge could see, and what it can't judge.
    Starts nothing.
    """
    from harness.cli.scenarios import show_plan

    return show_plan(asked, as_json=as_json)


@app.command(epilog=HELP)
def faults(
    point: Annotated[str | None, typer.Argument(metavar="[POINT]", help="One point in full, such as kv.take.")] = None,
    layer: Annotated[str | None, typer.Option(help="Only the points of this layer.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For a program.")] = False,
) -> int:
    """List what can be broken, and how.

    Points, their actions, and the symptom by which a part that does not know the injector proves that it was felt.
    """
    from harness.cli.catalogue import show

    return show(point, layer, as_json=as_json)


@app.command(
    epilog=HELP,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def serve(context: typer.Context) -> int:
    """Start the built-in server by itself."""
    from runtime.server.supervisor import main as supervise

    return supervise(context.args)


@app.command(epilog=HELP)
def calibrate(
    out: Annotated[Path | None, typer.Option(help="The table's file; without it the table is printed.")] = None,
    name: Annotated[str, typer.Option(help="What virtual reports call it.")] = "cpu",
    threads: Annotated[int, typer.Option(help="Of torch.", min=1)] = 1,
) -> int:
    """Measure what launches cost on this machine, for virtual runs."""
    from runtime.calibrate import main as measure

    words = ["--name", name, "--threads", str(threads)]
    return measure(words if out is None else [*words, "--out", str(out)])


@app.command(epilog=HELP)
def judge(run: Run = "latest", runs_dir: RunsDir = Path("runs"), report_only: ReportOnly = False) -> int:
    """Judge a recorded run again."""
    from harness.cli.trial import judged

    return judged(run, runs_dir, report_only=report_only)


@app.command(epilog=HELP)
def report(run: Run = "latest", runs_dir: RunsDir = Path("runs")) -> int:
    """Write the report of a run again.

    report.html, summary.md and junit.xml. Exit 0 when they are written, whatever the verdict.
    """
    from harness.cli.trial import reported

    return reported(run, runs_dir)


@app.command(epilog=HELP)
def replay(
    run: Run = "latest",
    seed: Seed = None,
    allow_host: AllowHost = None,
    allow_command: AllowCommand = False,
    runs_dir: RunsDir = Path("runs"),
) -> int:
    """Run a recorded run again.

    With its own scenario, seed and options. Permissions are never taken from a run directory: type them again.
    """
    from harness.cli.trial import replayed

    return replayed(run, runs_dir, seed, tuple(allow_host or ()), allow_command=allow_command)


@app.command(epilog=HELP)
def digest(
    run: Run = "latest",
    runs_dir: RunsDir = Path("runs"),
    tables: Annotated[bool, typer.Option("--tables", help="One digest for each table.")] = False,
) -> int:
    """Print the digest of a run's rows.

    Over the deterministic tables: two virtual runs with one seed have the same.
    """
    from harness.cli.trial import digested

    return digested(run, runs_dir, tables=tables)
