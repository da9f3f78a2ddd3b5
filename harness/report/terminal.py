"""Prints the verdict on a terminal: 80 columns, colour only on a terminal, sanitised text."""

import os
import textwrap
from typing import TextIO

from assertions.verdict import Judged, State
from harness.report import figures
from harness.report.judges import details, title
from harness.report.model import Report
from harness.report.sanitise import one_line, terminal

COLUMNS = 80
INDENT = 13
STYLES = {State.PASS: "bold green", State.FAIL: "bold red", State.UNKNOWN: "bold yellow", State.NOT_JUDGED: "dim"}
EVIDENCE_SHOWN = 3


def show(report: Report, out: TextIO, *, files: tuple[str, ...] = ()) -> None:
    """Print the verdict. `files` are paths to list at the end. NO_COLOR and a pipe give plain text."""
    page = _Page(out)
    identity, verdict = report.identity, report.verdict
    head = f"{identity.scenario} · seed {identity.seed} · commit {identity.commit} · exit {verdict.exit}"
    page.line(str(verdict.state), STYLES[verdict.state], head)
    page.field("means", identity.means)
    page.field("again", identity.replay, whole=True)
    if identity.costs:
        page.field("device", identity.costs)
    page.field("because", verdict.because)
    for judged in report.judges:
        if judged.state in (State.FAIL, State.UNKNOWN):
            _judge(page, judged)
    page.gap()
    for judged in report.judges:
        if judged.state is State.PASS:
            page.line("PASS", STYLES[State.PASS], f"      {title(judged)}", *_outcome(judged))
    for price, names in _not_judged(report.judges):
        page.line("not judged", "dim", f"{', '.join(names)} ({price})")
    page.gap()
    totals = ", ".join(f"{outcome} {figures.count(number)}" for outcome, number in report.outcomes.totals)
    page.field("requests", totals or "none recorded")
    for fault in report.faults:
        fired = f"fired {figures.count(fault.fired)} (at least {fault.fired_min}), {fault.symptom_seen}"
        page.field("fault", f"{fault.name} {fault.do}: {fired}")
    for path in files:
        page.field("see", path, whole=True)


def _judge(page: "_Page", judged: Judged) -> None:
    page.gap()
    page.line(str(judged.state), STYLES[judged.state], title(judged))
    page.field("", judged.summary)
    for name, value in details(judged).items():
        page.field(name, value)
    for item in judged.evidence[:EVIDENCE_SHOWN]:
        page.field("", " ".join(text for text in (figures.at_ns(item.t_ns), item.request, item.text) if text))
    if len(judged.evidence) > EVIDENCE_SHOWN:
        page.field("", f"and {len(judged.evidence) - EVIDENCE_SHOWN} more in verdict.json")


def _outcome(judged: Judged) -> tuple[str, ...]:
    """Texts to show beside a pass, the longer one first."""
    observed = judged.observed or judged.summary
    return (f"{observed}  (limit {judged.limit})", observed) if judged.limit else (observed,)


def _not_judged(judges: tuple[Judged, ...]) -> list[tuple[str, list[str]]]:
    """The judges that were not judged, joined by equal price."""
    names: dict[str, list[str]] = {}
    for judged in judges:
        if judged.state is State.NOT_JUDGED:
            price = "; ".join(text for text in (judged.because, judged.to_decide) if text)
            names.setdefault(price, []).append(judged.name)
    return list(names.items())


class _Page:
    """Prints lines of at most COLUMNS, a fixed width, so that logs do not depend on the screen."""

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console

        # With NO_COLOR the library drops colours but keeps bold and dim, so all styles are switched off.
        styled = False if os.environ.get("NO_COLOR") else None
        self._console = Console(
            file=out, width=COLUMNS, highlight=False, markup=False, emoji=False, force_terminal=styled
        )

    def gap(self) -> None:
        self._print([])

    def line(self, word: str, style: str, text: str, *asides: str) -> None:
        """Print a coloured word, a text, and the first of the dimmed asides that fits on the line."""
        lead = text[: len(text) - len(text.lstrip())]
        lines = _wrapped(f"{lead}{_safe(text)}", COLUMNS - len(word) - 2)
        room = COLUMNS - len(word) - 2 - len(lines[0]) - 3
        shown = next((_safe(aside) for aside in asides if len(_safe(aside)) <= room), "")
        self._print([(word, style), ("  " + lines[0], ""), (f"   {shown}" if shown else "", "dim")])
        for rest in lines[1:]:
            self._print([(" " * INDENT + rest, "")])

    def field(self, name: str, value: str | None, *, whole: bool = False) -> None:
        """Print one indented field. `whole` keeps a path or command on one line, so that it can be copied."""
        if not value:
            return
        lines = [_safe(value)] if whole else _wrapped(_safe(value), COLUMNS - INDENT)
        self._print([(f"  {name:<{INDENT - 2}}", "dim"), (lines[0], "")])
        for rest in lines[1:]:
            self._print([(" " * INDENT + rest, "")])

    def _print(self, parts: list[tuple[str, str]]) -> None:
        from rich.text import Text

        self._console.print(Text.assemble(*parts), soft_wrap=True)


def _wrapped(text: str, columns: int) -> list[str]:
    return textwrap.wrap(text, columns, break_on_hyphens=False, drop_whitespace=True) or [""]


def _safe(text: str) -> str:
    return terminal(one_line(text))
