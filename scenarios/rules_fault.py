"""Rules between the keys of a fault, and between faults."""

from collections.abc import Iterator
from difflib import get_close_matches

from scenarios.fault import Fault
from scenarios.positions import Path
from scenarios.pydantic_errors import BrokenRule
from scenarios.schema import Scenario
from scenarios.units import show_seconds


def broken_rules(scenario: Scenario) -> Iterator[BrokenRule]:
    trial = scenario.phases.trial
    for index, fault in enumerate(scenario.fault):
        path: Path = ("fault", index)
        yield from _when(fault, path, trial if isinstance(trial, float) else None)
        yield from _expect(fault, path)
        if fault.id in ("outside", "all"):
            yield BrokenRule(
                (*path, "id"), f'"{fault.id}" has a meaning of its own in check.where', "give it another id"
            )
    yield from _after(scenario)


def _when(fault: Fault, path: Path, trial_s: float | None) -> Iterator[BrokenRule]:
    when, at = fault.when, (*path, "when")
    if when.after is not None:
        for key in ("at", "every"):
            if getattr(when, key) is not None:
                rule = f"after and {key} both say when to arm"
                yield BrokenRule((*at, key), rule, "keep one of them", about=((*at, "after"),))
    if when.at is not None and trial_s is not None and when.at >= trial_s:
        rule = f"the trial ends after {show_seconds(trial_s)}, so the fault never opens"
        yield BrokenRule((*at, "at"), rule, f"write less than {show_seconds(trial_s)}", about=(("phases", "trial"),))
    # A persistent fault ends by `for` or ttl. Any other fault may end earlier, when `times` is used up.
    lasts_s = when.for_ if when.for_ is not None or not fault.persist else fault.ttl
    if when.every is not None and lasts_s is not None and when.every <= lasts_s:
        rule = "the next occurrence would open before this one ends"
        about: tuple[Path, ...] = ((*at, "for"), (*path, "persist"), (*path, "ttl"))
        yield BrokenRule((*at, "every"), rule, f"write more than {show_seconds(lasts_s)}", about=about)
    if when.for_ is not None and fault.ttl < when.for_:
        rule = "ttl is shorter than for"
        yield BrokenRule((*path, "ttl"), rule, f"write {show_seconds(when.for_ + 60)}", about=((*at, "for"),))
    if fault.fired_min > when.times and not fault.persist:
        rule = f"it fires at most {when.times} times in each occurrence"
        cure = f"raise when.times to {fault.fired_min}, or lower fired_min"
        yield BrokenRule((*path, "fired_min"), rule, cure, about=((*at, "times"), (*path, "persist")))


def _expect(fault: Fault, path: Path) -> Iterator[BrokenRule]:
    about: tuple[Path, ...] = ((*path, "scope"),)
    if fault.expect.victims == "scope" and all(value is None for value in fault.scope.model_dump().values()):
        cure = 'name a scope, or write victims = "all"'
        yield BrokenRule((*path, "expect", "victims"), "the fault has no scope", cure, about=about)
    repeated = [word for at, word in enumerate(fault.expect.outcomes) if word in fault.expect.outcomes[:at]]
    if repeated:
        yield BrokenRule((*path, "expect", "outcomes"), f'"{repeated[0]}" is named twice', "leave one out")


def _after(scenario: Scenario) -> Iterator[BrokenRule]:
    """Every `after` names another fault, and no chain comes back to where it began."""
    ids = [fault.id for fault in scenario.fault]
    id_paths: tuple[Path, ...] = tuple(("fault", index, "id") for index in range(len(ids)))
    waits = {f.id: f.when.after.partition(".")[0] for f in scenario.fault if f.when.after is not None}
    for index, fault in enumerate(scenario.fault):
        path: Path = ("fault", index, "when", "after")
        awaited = waits.get(fault.id)
        if awaited is None:
            continue
        if awaited not in ids:
            close = get_close_matches(awaited, ids, 1, 0.5)
            cure = f'did you mean "{close[0]}"?' if close else f"faults are {', '.join(ids)}"
            yield BrokenRule(path, f'no fault "{awaited}"', cure, about=id_paths)
            continue
        chain = [fault.id]
        while (following := waits.get(chain[-1])) is not None and following not in chain:
            chain.append(following)
        if following == fault.id:
            circle = " waits for ".join([*chain, following])
            yield BrokenRule(path, circle, "break the circle: write at in one of them", about=id_paths)
