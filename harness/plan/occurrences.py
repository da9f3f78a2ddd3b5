"""Every arming of every fault, with its time in the trial: `every` becomes occurrences 0, 1, 2, ..."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from faults import Catalogue, SpecError, resolve
from faults.spec import FaultSpec, Scope, When, parse_do
from scenarios.fault import Fault
from scenarios.schema import Scenario

UNDECLARED_AT_S = 1.0


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One arming. Exactly one of `at_s` (from the start of the trial) and `after` ("oom.healed") is set."""

    spec: FaultSpec
    at_s: float | None
    after: str | None


def occurrences(scenario: Scenario, trial_s: float) -> list[Occurrence]:
    """In order of time, those that follow another fault last. `trial_s` bounds what `every` repeats."""
    found = [each for fault in scenario.fault for each in _of(fault, scenario.seed, trial_s)]
    return sorted(found, key=lambda each: float("inf") if each.at_s is None else each.at_s)


def undeclared(lines: Sequence[str], seed: int, catalogue: Catalogue) -> list[Occurrence]:
    """Faults that the judges are not told of, to test the judges: open for the whole trial, every fifth crossing.

    Raises SpecError with every line that is none, or that the catalogue does not permit.
    """
    when, specs, problems = When(skip=2, interval=5, times=None), [], []
    for n, line in enumerate(lines):
        try:
            specs.append(FaultSpec(id=f"hidden{n}", n=0, do=parse_do(line), when=when, seed=seed))
            resolve(specs[-1:], catalogue)
        except SpecError as error:
            problems += [text.removeprefix(f'fault "hidden{n}": ') for text in error.problems]
    if problems:
        raise SpecError(problems)
    return [Occurrence(spec, UNDECLARED_AT_S, None) for spec in specs]


def _of(fault: Fault, seed: int, trial_s: float) -> Iterator[Occurrence]:
    if fault.when.after is not None:
        yield Occurrence(_spec(fault, 0, seed), None, fault.when.after)
        return
    at_s, n = fault.when.at or 0.0, 0
    while n == 0 or (fault.when.every is not None and at_s < trial_s):
        yield Occurrence(_spec(fault, n, seed), at_s, None)
        if fault.when.every is None:
            return
        at_s, n = at_s + fault.when.every, n + 1


def _spec(fault: Fault, n: int, seed: int) -> FaultSpec:
    """What the injector is told: hits, not times; when to arm is the switch's business."""
    return FaultSpec(
        id=fault.id,
        n=n,
        do=fault.do,
        place=fault.place,
        when=When(
            for_s=fault.when.for_,
            skip=fault.when.skip,
            times=fault.when.times,
            interval=fault.when.interval,
            probability=fault.when.probability,
            space_bytes=fault.when.space,
        ),
        scope=Scope(**fault.scope.model_dump()),
        persist=fault.persist,
        fired_min=fault.fired_min,
        ttl_s=fault.ttl,
        seed=seed,
    )
