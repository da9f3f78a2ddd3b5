"""GitHub output: at most ten `::error` lines, worst first, and the job's summary page.

GitHub silently drops annotations beyond ten of a kind in a step, so the tenth says how many there were.
"""

from collections.abc import Mapping
from pathlib import Path

from assertions.verdict import Judged, Level, State
from harness.report.model import Report
from harness.report.sanitise import annotation, annotation_property, one_line

LINES_MAX = 10
WORSE_FIRST = (State.FAIL, State.UNKNOWN)


def lines(report: Report) -> list[str]:
    """The workflow commands to print, one per line; empty for a run that passed."""
    judges = [
        judged
        for state in WORSE_FIRST
        for judged in report.judges
        if judged.state is state and judged.level is Level.REQUIRED
    ]
    if report.verdict.because:
        return [_line(f"{report.identity.scenario}: no verdict", report.verdict.because)]
    shown = judges if len(judges) <= LINES_MAX else judges[: LINES_MAX - 1]
    commands = [_line(f"{judged.state} {judged.name}", _message(report, judged)) for judged in shown]
    if len(judges) > len(shown):
        rest = len(judges) - len(shown)
        commands.append(_line(report.identity.scenario, f"+{rest} more: see report.html of {report.identity.run_id}"))
    return commands


def publish_summary(summary: str, environment: Mapping[str, str]) -> None:
    """Append Markdown to the job's page when there is one. Raises OSError."""
    page = environment.get("GITHUB_STEP_SUMMARY")
    if page:
        with Path(page).open("a", encoding="utf-8") as out:
            out.write(summary)


def wanted(environment: Mapping[str, str]) -> bool:
    return environment.get("GITHUB_ACTIONS") == "true"


def _message(report: Report, judged: Judged) -> str:
    parts = [judged.because if judged.state is State.UNKNOWN else judged.summary]
    if judged.limit or judged.observed:
        parts.append(f"limit {judged.limit or '-'}, observed {judged.observed or '-'}")
    parts.append(report.identity.replay)
    return "\n".join(one_line(part) for part in parts if part)


def _line(title: str, message: str) -> str:
    return f"::error title={annotation_property(one_line(title, 120))}::{annotation(message)}"
