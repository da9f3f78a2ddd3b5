"""Read the scenario that the options name, apply the options to it, and check the result."""

from pathlib import Path

from faults import Catalogue
from harness.options import RunOptions
from runtime.counters import COUNTERS
from scenarios import library
from scenarios.problems import Problem, ScenarioProblems, printable
from scenarios.pydantic_errors import BrokenRule
from scenarios.read import Document, read_document
from scenarios.rules import KnownNames, broken_rules
from scenarios.schema import Scenario


def prepare(options: RunOptions, catalogue: Catalogue) -> Document:
    """The scenario to run. Raises ScenarioProblems with every problem of the file or of the options."""
    known = vocabulary(catalogue)
    document = read_document(library.find(options.scenario), known)
    changed = _overridden(document.scenario, options)
    if changed is document.scenario:
        return document
    # A rule about several keys may hold in the file and fail now: a remote --target needs all limits.
    traces: dict[int, str] = {}
    found = list(broken_rules(changed, known, None, traces))
    if found:
        raise ScenarioProblems([_problem(document, finding, options) for finding in found])
    return Document(changed, document.source)


TYPED = {
    ("seed",): "seed",
    ("target", "url"): "target",
    ("target", "model"): "model",
    ("target", "metrics"): "metrics",
    ("target", "pid"): "pid",
    ("phases", "trial"): "minutes",
}
"""The scenario keys that options of a run set."""


def _problem(document: Document, finding: BrokenRule, options: RunOptions) -> Problem:
    """Locate the problem in the file, or name the option that caused it."""
    option = TYPED.get(tuple(str(step) for step in finding.path))
    given = getattr(options, option) if option is not None else None
    if given is None:
        return document.source.problem(finding.path, finding.rule, finding.remedy, on_key=finding.on_key)
    return Problem(printable(f"--{option} {given}"), 0, 0, "", "", finding.rule, finding.remedy)


def vocabulary(catalogue: Catalogue) -> KnownNames:
    """The fault points, actions and counters that a scenario may name."""
    points = (catalogue.get(name) for name in catalogue.names())
    actions = {point.name: frozenset(action.name for action in point.actions) for point in points}
    return KnownNames(actions, frozenset(COUNTERS))


def _overridden(scenario: Scenario, options: RunOptions) -> Scenario:
    given = {path: value for path, option in TYPED.items() if (value := getattr(options, option)) is not None}
    if not given and not options.virtual:
        return scenario
    plain = scenario.model_dump(mode="json", by_alias=True)
    if options.virtual:
        plain["drive"] = "virtual"
    if options.target is not None:
        # The scenario describes its own target; these values are not valid for another target.
        plain["target"] |= {"kind": "url", "command": [], "knobs": {}, "metrics": None, "pid": None}
    for (*tables, key), value in given.items():
        table = plain[tables[0]] if tables else plain
        table[key] = value * 60 if key == "trial" else value
    try:
        return Scenario.from_plain(plain)
    except ValueError as problem:  # pydantic's ValidationError: the file was valid, so an option caused it
        first = str(problem).splitlines()[2].strip() if len(str(problem).splitlines()) > 2 else str(problem)
        raise ScenarioProblems(
            [Problem(Path(options.scenario).name, 0, 0, "", "", f"command-line option: {first}", "")]
        ) from None
