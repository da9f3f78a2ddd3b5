"""From what was typed to a checked scenario: found by name or path, overrides applied, and checked again."""

from pathlib import Path

from faults import Catalogue
from harness.options import RunOptions
from scenarios import library
from scenarios.problems import Problem, ScenarioProblems, printable
from scenarios.pydantic_errors import BrokenRule
from scenarios.read import Document, read_document
from scenarios.rules import KnownNames, broken_rules
from scenarios.schema import Scenario


def prepare(options: RunOptions, catalogue: Catalogue) -> Document:
    """The scenario to run. Raises ScenarioProblems with everything that is wrong in the file, or by what was typed."""
    known = vocabulary(catalogue)
    document = read_document(library.find(options.scenario), known)
    changed = _overridden(document.scenario, options)
    if changed is document.scenario:
        return document
    # A rule over several keys may hold in the file and break now: a foreign --target needs all limits.
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
    """At its place in the file, or by the option that was typed: the file is not to blame for that."""
    option = TYPED.get(tuple(str(step) for step in finding.path))
    given = getattr(options, option) if option is not None else None
    if given is None:
        return document.source.problem(finding.path, finding.rule, finding.remedy, on_key=finding.on_key)
    return Problem(printable(f"--{option} {given}"), 0, 0, "", "", finding.rule, finding.remedy)


def vocabulary(catalogue: Catalogue) -> KnownNames:
    """The fault points and actions that a scenario may name."""
    points = (catalogue.get(name) for name in catalogue.names())
    return KnownNames({point.name: frozenset(action.word for action in point.actions) for point in points})


def _overridden(scenario: Scenario, options: RunOptions) -> Scenario:
    typed = (options.seed, options.target, options.model, options.minutes, options.metrics, options.pid)
    if all(each is None for each in typed) and not options.virtual:
        return scenario
    plain = scenario.model_dump(mode="json", by_alias=True)
    if options.seed is not None:
        plain["seed"] = options.seed
    if options.virtual:
        plain["drive"] = "virtual"
    if options.minutes is not None:
        plain["phases"]["trial"] = options.minutes * 60
    if options.target is not None:
        # What the scenario says of its own target is not true of another one.
        other: dict[str, object] = {"command": [], "knobs": {}, "metrics": None, "pid": None}
        plain["target"] |= {"kind": "url", "url": options.target, **other}
    if options.model is not None:
        plain["target"]["model"] = options.model
    plain["target"] |= {
        key: value for key, value in (("metrics", options.metrics), ("pid", options.pid)) if value is not None
    }
    try:
        return Scenario.from_plain(plain)
    except ValueError as problem:  # pydantic's ValidationError: the file was sound, so it is what was typed
        first = str(problem).splitlines()[2].strip() if len(str(problem).splitlines()) > 2 else str(problem)
        raise ScenarioProblems(
            [Problem(Path(options.scenario).name, 0, 0, "", "", f"what was typed: {first}", "")]
        ) from None
