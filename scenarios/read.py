"""Reads a scenario from a TOML file, or reports all of its problems at once."""

import copy
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Final

from pydantic import ValidationError

from scenarios import pydantic_errors, rules
from scenarios.positions import Path, locate
from scenarios.problems import Problem, ScenarioProblems, ScenarioText
from scenarios.pydantic_errors import BrokenRule
from scenarios.rules import KnownNames
from scenarios.schema import Scenario
from scenarios.traces import TraceFolders
from scenarios.types import KEYS

SIZE_MAX: Final = 1_000_000  # bytes; a scenario is one page, so a larger file was given by mistake


@dataclass(frozen=True)
class Document:
    """A scenario and its text. `source.problem(path, ...)` points at a key that a later stage refuses."""

    scenario: Scenario
    source: ScenarioText


def read(path: str | FilePath, known: KnownNames | None = None, environ: Mapping[str, str] | None = None) -> Scenario:
    """Read the scenario of a file. `trace.file` becomes the path that was found. Raises ScenarioProblems.

    `known` holds the existing fault points and marks; without it their names are not checked. `environ` replaces the
    process's environment, in which SEATRIAL_DATA is looked up.
    """
    return read_document(path, known, environ).scenario


def read_document(
    path: str | FilePath, known: KnownNames | None = None, environ: Mapping[str, str] | None = None
) -> Document:
    """Read a file like `read`, and keep the text so that later problems can point into it."""
    text = _text_of(FilePath(path))
    folders = TraceFolders.of(FilePath(path), os.environ if environ is None else environ)
    return read_text(text, str(path), known, folders)


def read_text(
    text: str, path: str = "<scenario>", known: KnownNames | None = None, folders: TraceFolders | None = None
) -> Document:
    """Read a scenario from text. Without `folders` trace files are not looked up."""
    text = text.replace("\r\n", "\n")
    raw = _parse(text, path)
    source = ScenarioText(path, text, locate(text))
    keys: dict[int, tuple[str, ...]] = {}
    found: list[BrokenRule] = []
    try:
        scenario: Scenario | None = Scenario.model_validate(raw, context={KEYS: keys})
    except ValidationError as error:
        found = pydantic_errors.broken_rules(error, raw, keys)
        scenario = _best_effort(raw, found)
    trace_files: dict[int, str] = {}
    if scenario is not None:
        broken = {each.path for each in found} | {each.instead for each in found if each.instead}
        checked = list(rules.broken_rules(scenario, known, folders, trace_files))
        found += [each for each in checked if not any(_inside(at, broken) for at in (each.path, *each.about))]
    if found:
        raise ScenarioProblems(
            [source.problem(f.path, f.rule, f.remedy, on_key=f.on_key) for f in _deduplicated(found)]
        )
    assert scenario is not None
    return Document(_with_traces(scenario, trace_files), source)


def _text_of(path: FilePath) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_MAX + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ScenarioProblems([Problem(str(path), 0, 0, "", "", f"cannot read the scenario: {reason}", "")]) from None
    if len(data) > SIZE_MAX:
        raise ScenarioProblems([Problem(str(path), 0, 0, "", "", "this is no scenario: over 1 MB", "")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, col = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        shown = data.decode("utf-8", "replace").split("\n")[line - 1]
        problem = Problem(str(path), line, col, "", "", "this byte is no UTF-8", "save the file as UTF-8", shown)
        raise ScenarioProblems([problem]) from None


_AT: Final = re.compile(r"^(.*) \(at (?:line (\d+), column (\d+)|end of document)\)$", re.DOTALL)


def _parse(text: str, path: str) -> dict[str, Any]:
    source = ScenarioText(path, text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = _AT.match(str(error))
        lines = text.split("\n")
        what = match[1] if match else str(error)
        line = int(match[2]) if match and match[2] else len(lines)
        col = int(match[3]) if match and match[3] else len(lines[-1]) + 1
        remedy = _syntax_remedy(lines[line - 1] if line <= len(lines) else "", col)
        rule = f"TOML: {what[:1].lower()}{what[1:]}"
        raise ScenarioProblems([source.syntax_problem(line, col, rule, remedy)]) from None
    except (RecursionError, ValueError) as error:  # nesting without end; numbers of thousands of digits
        raise ScenarioProblems([source.syntax_problem(1, 1, f"TOML: {error}", "")]) from None


def _syntax_remedy(line: str, col: int) -> str:
    """A remedy for the most frequent cause of a syntax error at this place."""
    before, here = line[: col - 1], line[col - 1 : col]
    in_table = before.count("{") > before.count("}")
    if in_table and here in ("", "#"):
        return "an inline table { } stays on one line; write [table] or [[table]] to spread it"
    if in_table and here == "}" and before.rstrip().endswith(","):
        return "no comma before the } of an inline table"
    if re.match(r"^\s*[\w.-]+\s*=\s*$", before) and re.match(r"[\w/%.]", here):
        return "write text and numbers with a unit in quotes"
    return ""


_FILLERS: Final[dict[str, Any]] = {
    "schema": 1,
    "name": "x",
    "means": "x",
    "phases": {"trial": "1s"},
    "trial": "1s",
    "load": [{"id": "filler", "rate": "1/s"}],
    "do": "a.b: c",
    "that": "errors <= 1",
    "share": 0,
    "file": "filler",
    "every": "1h",
    "completed": 1,
    "reference": "auto",
}


def _best_effort(raw: dict[str, Any], found: list[BrokenRule]) -> Scenario | None:
    """The scenario without its broken values, so that rules between keys are reported in the same pass.

    Rules about a filled-in value are dropped later, because their path lies in a broken one.
    """
    repaired = copy.deepcopy(raw)
    for _ in range(4):
        for each in sorted(found, key=lambda finding: len(finding.path)):
            _repair(repaired, each.path)
        keys: dict[int, tuple[str, ...]] = {}
        try:
            return Scenario.model_validate(repaired, context={KEYS: keys})
        except ValidationError as error:
            found = pydantic_errors.broken_rules(error, repaired, keys)
    return None


def _repair(repaired: dict[str, Any], path: Path) -> None:
    """Remove the value at a path, or fill in a missing key. Lists keep their length."""
    if not path:
        return
    table: Any = repaired
    for step in path[:-1]:
        try:
            table = table[step]
        except (KeyError, IndexError, TypeError):
            return  # removed together with a table above it
    last = path[-1]
    if isinstance(table, list):
        # removing an element would move the others, so the whole list is removed unless it holds tables
        if isinstance(last, int) and path[0] in ("load", "fault", "check") and len(path) == 2:
            table[last] = {"id": f"filler{last}"}
        else:
            _repair(repaired, path[:-1])
    elif isinstance(table, dict) and last in table:
        del table[last]
    elif isinstance(table, dict):
        number = next((step for step in path if isinstance(step, int)), 0)
        table[last] = f"filler{number}" if last == "id" else copy.deepcopy(_FILLERS.get(str(last), "filler"))


def _inside(path: Path, broken: set[Path]) -> bool:
    return any(path[:length] in broken for length in range(1, len(path) + 1))


def _deduplicated(found: list[BrokenRule]) -> Iterator[BrokenRule]:
    seen: set[tuple[Path, str]] = set()
    for each in found:
        if (each.path, each.rule) not in seen:
            seen.add((each.path, each.rule))
            yield each


def _with_traces(scenario: Scenario, files: Mapping[int, str]) -> Scenario:
    """The scenario with each trace file replaced by the path where it was found."""
    loads = tuple(
        load.model_copy(update={"trace": load.trace.model_copy(update={"file": files[index]})})
        if load.trace is not None and index in files
        else load
        for index, load in enumerate(scenario.load)
    )
    return scenario.model_copy(update={"load": loads}) if files else scenario
