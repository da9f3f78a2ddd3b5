"""Find the point and action of a fault specification in the catalogue, and check the specification against them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from faults.points import Action, Catalogue, Point, Shown, UnknownName
from faults.spec import FaultSpec, SpecError, did_you_mean, parse_duration_s


@dataclass(frozen=True, slots=True)
class Resolved:
    """A checked specification that can be armed. `seconds` is its duration argument; None when it has none."""

    spec: FaultSpec
    point: Point
    action: Action
    seconds: float | None


def resolve(specs: Iterable[FaultSpec], catalogue: Catalogue) -> list[Resolved]:
    """Resolve all specs. Errors: SpecError with every problem of every spec, each with the id of its fault."""
    resolved: list[Resolved] = []
    problems: list[str] = []
    seen: set[tuple[str, int]] = set()
    for spec in specs:
        found: list[str] = []
        if (spec.id, spec.n) in seen:
            found.append(f"occurrence {spec.n} is given twice; number the occurrences")
        seen.add((spec.id, spec.n))
        one = _resolve_one(spec, catalogue, found)
        problems.extend(f'fault "{spec.id}": {problem}' for problem in found)
        if one is not None and not found:
            resolved.append(one)
    if problems:
        raise SpecError(problems)
    return resolved


def _resolve_one(spec: FaultSpec, catalogue: Catalogue, problems: list[str]) -> Resolved | None:
    try:
        point = catalogue.get(spec.do.point)
    except UnknownName as error:
        problems.append(str(error))
        return None
    problems.extend(_scope_problems(spec, point))
    try:
        action = point.action(spec.do.action)
    except UnknownName as error:
        problems.append(str(error))
        return None
    if spec.place not in action.placements:
        allowed = " or ".join(f'"{place}"' for place in action.placements)
        problems.append(f'place = "{spec.place}" is not permitted for "{point.name}: {action.name}"; give {allowed}')
    return Resolved(spec, point, action, _checked_argument(spec, action, problems))


def _scope_problems(spec: FaultSpec, point: Point) -> list[str]:
    """The reasons why no crossing of `point` can match the scope; empty when one can."""
    wanted, problems = spec.scope.wanted(), []
    for name, value in wanted:
        options = [shown[name] for shown in point.scope if name in shown]
        if not options:
            passed = ", ".join(point.attributes) or "none"
            problems.append(
                f'scope.{name}: "{point.name}" does not pass {name}, so nothing would match; it passes {passed}'
            )
        elif all(values and value not in values for values in options):
            near = did_you_mean(value, {known for values in options for known in values})
            problems.append(f'scope.{name}: "{point.name}" is never crossed with {name} = "{value}"; {near}')
    if not problems and wanted and not any(_can_match(wanted, shown) for shown in point.scope):
        words = " and ".join(f'{name} = "{value}"' for name, value in wanted)
        problems.append(f'scope: no crossing of "{point.name}" shows {words} together; leave one of them out')
    return problems


def _can_match(wanted: tuple[tuple[str, str], ...], shown: Shown) -> bool:
    return all(name in shown and (not shown[name] or value in shown[name]) for name, value in wanted)


def _checked_argument(spec: FaultSpec, action: Action, problems: list[str]) -> float | None:
    """Check the argument, and return it in seconds when it is a duration."""
    given, do = spec.do.argument, f'do = "{spec.do}"'
    wanted, optional = action.argument.rstrip("?"), action.argument.endswith("?")
    if given is None:
        if wanted and not optional:
            problems.append(f'{do}: "{action.name}" needs a {wanted}{_example(action, wanted)}')
        return None
    if not wanted:
        problems.append(f'{do}: "{action.name}" takes no argument; leave "{given}" out')
    elif wanted == "duration":
        return _checked_seconds(spec, given, do, problems)
    elif wanted == "number":
        _check_number(given, do, problems)
    elif action.words and given not in action.words:
        problems.append(f'{do}: no "{action.name}" of kind "{given}"; {did_you_mean(given, action.words)}')
    return None


def _example(action: Action, wanted: str) -> str:
    example = {"duration": "20s", "number": "0.5", "word": action.words[0] if action.words else "name"}[wanted]
    return f', e.g. "{action.name} {example}"'


def _checked_seconds(spec: FaultSpec, given: str, do: str, problems: list[str]) -> float | None:
    try:
        seconds = parse_duration_s(given)
    except SpecError as error:
        problems.append(f"{do}: {error}")
        return None
    if seconds == 0:
        problems.append(f"{do}: the duration is 0, so the fault would have no effect; give more than 0")
    if seconds > spec.max_lifetime_s:
        problems.append(f"{do}: the duration is above ttl = {spec.max_lifetime_s:g}s; shorten it or raise ttl")
    return seconds


def _check_number(given: str, do: str, problems: list[str]) -> None:
    try:
        finite = math.isfinite(float(given))
    except ValueError:
        finite = False
    if not finite:
        problems.append(f'{do}: "{given}" is not a finite number; write it like 0.5')
