"""From a TOML file to a `Scenario`, or to every problem in it at once."""

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

SIZE_MAX: Final = 1_000_000  # a scenario is a page of words; more is another file given by mistake


@dataclass(frozen=True)
class Document:
    """A scenario and its text: `source.problem(path, ...)` points at what a later part can't serve."""

    scenario: Scenario
    source: ScenarioText


def read(path: str | FilePath, known: KnownNames | None = None, environ: Mapping[str, str] | None = None) -> Scenario:
    """The scenario of a file. `trace.file` comes out as the path that was found.

    `known`: the fault points and marks that exist; without it their names are not checked. `environ`: where
    SEATRIAL_DATA is looked up (none: the process's own). Raises `ScenarioProblems`, also when there is no such file.
    """
    return read_document(path, known, environ).scenario


def read_document(
    path: str | FilePath, known: KnownNames | None = None, environ: Mapping[str, str] | None = None
) -> Document:
    """`read`, keeping the text so that later refusals can point into it."""
    text = _text_of(FilePath(path))
    folders = TraceFolders.of(FilePath(path), os.environ if environ is None else environ)
    return read_text(text, str(path), known, folders)


def read_text(
    text: str, path: str = "<scenario>", known: KnownNames | None = None, folders: TraceFolders | None = None
) -> Document:
    """`read_document` for text in memory; without `folders` trace files are not looked for."""
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
    """What most often stands behind an error at this place."""
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
    """The scenario with its broken values left out, so that rules between keys can report in the same pass.

    Rules that would judge a value we made up are moot: their path lies in a broken one.
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
    """Drop the value at this path; put a filler where the key was missing. Lists keep their length."""
    if not path:
        return
    table: Any = repaired
    for step in path[:-1]:
        try:
            table = table[step]
        except (KeyError, IndexError, TypeError):
            return  # gone with something above it
    last = path[-1]
    if isinstance(table, list):
        # an element can't be left out without moving the others, so the whole list goes, unless tables stand in it
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
    """Each trace under the path where it was found."""
    loads = tuple(
        load.model_copy(update={"trace": load.trace.model_copy(update={"file": files[index]})})
        if load.trace is not None and index in files
        else load
        for index, load in enumerate(scenario.load)
    )
    return scenario.model_copy(update={"load": loads}) if files else scenario
