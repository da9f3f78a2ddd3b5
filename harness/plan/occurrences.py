"""Every occurrence of every fault with its time in the trial: `every` gives the occurrences 0, 1, 2, ..."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from faults import Catalogue, SpecError, resolve
from faults.spec import FaultSpec, Scope, When, parse_do
from scenarios.fault import Fault
from scenarios.schema import Scenario

UNDECLARED_AT_S = 1.0


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One arming of a fault. Exactly one of `at_s` (s from the trial's start) and `after` ("oom.healed") is set."""

    spec: FaultSpec
    at_s: float | None
    after: str | None


def occurrences(scenario: Scenario, trial_s: float) -> list[Occurrence]:
    """All occurrences by time; those that wait for another fault come last. `every` repeats before `trial_s`."""
    found = [each for fault in scenario.fault for each in _occurrences_of(fault, scenario.seed, trial_s)]
    return sorted(found, key=lambda each: float("inf") if each.at_s is None else each.at_s)


def undeclared(lines: Sequence[str], seed: int, catalogue: Catalogue) -> list[Occurrence]:
    """Faults that are not declared to the judges, to test the judges. They fire on every fifth crossing in the trial.

    Raises SpecError with every line that is not a `do` line, or that the catalogue does not permit.
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


def _occurrences_of(fault: Fault, seed: int, trial_s: float) -> Iterator[Occurrence]:
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
    """The specification for the injector. It holds no `at` and no `every`: the fault scheduler decides when to arm."""
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
