"""The report of a run, built once from history and verdict. Every output renders this model.

Numbers are therefore equal in the page, the summary, JUnit and the terminal; a test compares them.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from assertions.verdict import Judged, Verdict
from harness.report import figures
from harness.report.environment import RunEnvironment, environment
from harness.report.fault_table import FaultTableRow, fault_rows
from harness.report.judges import VerdictSummary, judges, read_verdict, verdict_summary
from harness.report.outcomes import OutcomeTable, outcome_table
from harness.report.source import NoRun, RunFiles, opened
from harness.report.timeline import Timeline, timeline

__all__ = ["NoRun", "Report", "ReportIdentity", "read"]


@dataclass(frozen=True)
class ReportIdentity:
    """The identity of a run and its replay command, as texts."""

    run_id: str
    scenario: str
    means: str
    seed: str
    commit: str  # with "(dirty)" when the working tree had changes
    seatrial: str
    drive: str
    target: str
    costs: str | None  # the cost table of a virtual run, and its error
    replay: str


@dataclass(frozen=True)
class Report:
    identity: ReportIdentity
    verdict: VerdictSummary
    judges: tuple[Judged, ...]
    timeline: Timeline
    outcomes: OutcomeTable
    faults: tuple[FaultTableRow, ...]
    environment: RunEnvironment
    missing: tuple[tuple[str, str], ...]  # (file or sensor, reason why it is missing)


def read(run_dir: Path, verdict: Verdict | None = None) -> Report:
    """Read a run directory. Raises NoRun when it holds no run; a missing part is reported in `missing`.

    A given `verdict` replaces verdict.json, which a full disk may have prevented.
    """
    with opened(run_dir) as found:
        source = found if verdict is None else found.judged(verdict.to_json())
        try:
            return _build(source)
        except sqlite3.DatabaseError as problem:
            # The header was valid but a later page is not: report plan and verdict, and this reason.
            return _build(source.without_history(f"broken: {problem}"))


def _build(source: RunFiles) -> Report:
    verdict, because = read_verdict(source)
    judged = judges(verdict, source.plan)
    requests = source.history.requests
    around = environment(source)
    absent = [(sensor.name, f"no sensor: {sensor.absent}") for sensor in around.sensors if sensor.absent]
    return Report(
        _identity(source),
        verdict_summary(verdict, because, judged),
        judged,
        timeline(source, requests),
        outcome_table(source),
        fault_rows(source),
        around,
        (*source.missing, *absent),
    )


def _identity(source: RunFiles) -> ReportIdentity:
    plan, verdict = source.plan, source.verdict
    scenario = plan.get("scenario") or {}
    target = plan.get("target") or {}
    run_id = str(verdict.get("run_id") or plan.get("run_id") or source.run_dir.name)
    commit = str(verdict.get("commit") or plan.get("commit") or "")
    dirty = verdict.get("dirty", plan.get("dirty"))
    return ReportIdentity(
        run_id=run_id,
        scenario=str(verdict.get("scenario") or scenario.get("name") or "?"),
        means=str(verdict.get("means") or scenario.get("means") or ""),
        seed=str(verdict.get("seed", plan.get("seed", figures.MISSING))),
        commit=figures.commit(commit, dirty=bool(dirty)),
        seatrial=str(verdict.get("seatrial") or plan.get("seatrial") or "?"),
        drive=str(scenario.get("drive") or "live"),
        target=" ".join(str(word) for word in (target.get("kind"), target.get("url")) if word) or "?",
        costs=source.history.meta.get("cost_table"),
        replay=str(verdict.get("replay") or f"seatrial replay {source.run_dir}"),
    )
