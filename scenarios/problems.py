"""Problems of a scenario file. All are reported at once, each with place, rule and remedy."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from scenarios.positions import Location, Path, TextRange

WIDTH_MAX: Final = 100
FULL_MAX: Final = 6
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem. `line` and `col` count from 1 and are 0 when the problem has no place in the file."""

    path: str
    line: int
    col: int
    key: str
    """The path as text, such as fault[2].when.at."""
    given: str
    """The value as written; "" when a key is missing."""
    rule: str
    remedy: str
    source: str = field(default="", compare=False)
    """The text of the line."""
    width: int = field(default=1, compare=False)
    """The number of characters to underline."""

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}:{self.col}" if self.line else self.path

    def __str__(self) -> str:
        given = f" = {self.given}" if self.given else ""
        return f"{self.place} {self.key}{given}: {self.rule}" + (f"; {self.remedy}" if self.remedy else "")

    def render(self) -> str:
        """Format as headline, line of the file, and caret with the remedy."""
        headline = f"{self.place}  {self.key}: {self.rule}" if self.key else f"{self.place}  {self.rule}"
        if not self.source:
            return headline + (f"\n      {self.remedy}" if self.remedy else "")
        gutter = max(5, len(str(self.line)) + 1)
        shown, start, width = _window(printable(self.source), self.col - 1, max(1, self.width), WIDTH_MAX - gutter - 3)
        caret = " " * start + "^" * width
        return "\n".join(
            (headline, f"{self.line:>{gutter}} | {shown}", f"{'':>{gutter}} | {caret} {self.remedy}".rstrip())
        )

    def summary_line(self) -> str:
        """Format in one line of at most WIDTH_MAX characters."""
        given = f" {self.given}" if self.given else ""
        line = f"  {self.line}:{self.col} {self.key}{given} ({self.remedy or self.rule})"
        return line if len(line) <= WIDTH_MAX else line[: WIDTH_MAX - 1] + "…"


class ScenarioProblems(Exception):
    """The scenario can't be used. `problems` holds all problems in the order of the file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        assert problems, "no problem, no exception"
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line, problem.col)))
        super().__init__(self.render())

    def render(self) -> str:
        """Format for a terminal: the first problems in full, the others in one line each, without control
        characters."""
        full, rest = self.problems[:FULL_MAX], self.problems[FULL_MAX:]
        blocks = [problem.render() for problem in full]
        if rest:
            blocks += [f"{len(rest)} more:", *(problem.summary_line() for problem in rest)]
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        return "\n".join([*blocks, f"{count}; nothing was started"])


@dataclass(frozen=True)
class ScenarioText:
    """The text of a scenario file with the location of every path in it."""

    path: str
    text: str
    locations: dict[Path, Location] = field(default_factory=dict, repr=False)

    def problem(self, at: Path, rule: str, remedy: str = "", *, on_key: bool = False) -> Problem:
        """A problem of the value or key at a path. A path that is not in the file is shown at the nearest table."""
        known = at
        while known and known not in self.locations:
            known = known[:-1]
        if known not in self.locations:  # a key of the top level that is not there
            return Problem(self.path, 1, 1, show_path(at), "", printable(rule), printable(remedy))
        spot = self.locations[known]
        on_key = on_key or known != at
        given = "" if on_key else self.shown(spot.value)
        return self._problem(spot.key if on_key else spot.value, show_path(at), given, rule, remedy)

    def syntax_problem(self, line: int, col: int, rule: str, remedy: str) -> Problem:
        lines = self.text.split("\n")
        return Problem(self.path, line, col, "", "", rule, remedy, lines[line - 1] if line <= len(lines) else "")

    def shown(self, span: TextRange) -> str:
        """The text of a range, on one short line."""
        text = printable(self.text[span.start : span.end].split("\n")[0])
        return text if len(text) <= 60 and "\n" not in self.text[span.start : span.end] else text[:57] + "..."

    def _problem(self, span: TextRange, key: str, given: str, rule: str, remedy: str) -> Problem:
        line = self.text.count("\n", 0, span.start) + 1
        begin = self.text.rfind("\n", 0, span.start) + 1
        end = self.text.find("\n", begin)
        source = self.text[begin : end if end >= 0 else len(self.text)]
        col, width = span.start - begin + 1, min(span.end, begin + len(source)) - span.start
        return Problem(self.path, line, col, key, given, printable(rule), printable(remedy), source, width)


def show_path(path: Path) -> str:
    """Format a path: ("fault", 2, "when", "at") is fault[2].when.at."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def printable(text: str) -> str:
    """The text without characters that move the cursor or change the text direction."""
    return _CONTROL.sub("\N{MIDDLE DOT}", text.replace("\t", " "))


def _window(line: str, start: int, width: int, columns: int) -> tuple[str, int, int]:
    """Cut a long line around the underlined range: (text, start of the underline, its width)."""
    if len(line) <= columns:
        return line, start, min(width, max(1, len(line) - start))
    width = min(width, columns // 2)
    begin = max(0, min(start - columns // 4, len(line) - columns))
    shown = line[begin : begin + columns]
    if begin > 0:
        shown = "…" + shown[1:]
    if begin + columns < len(line):
        shown = shown[:-1] + "…"
    return shown, start - begin, width
