"""One mutant, how it is planted, and what its machine makes of it.

    sound function --mutate--> mutant --patched in--> the machine, unchanged, runs --> Killed | Survived

The machine is not shrunk and stops at its first failure; Hypothesis then repeats that one run, which is not counted.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.steps import CountedMachine, Explored, counting

Function = Callable[..., Any]

PATIENCE = 5
"""Times as many runs as the machine has in CI."""

OWN_MISTAKES = (TypeError, NameError, AttributeError, NotImplementedError)
"""What a mutant raises that is itself broken: nothing is proven by its death."""


@dataclass(frozen=True)
class Mutant:
    """`mutate` makes the wrong function out of the sound one, `owner.member`."""

    what: str
    owner: type | ModuleType
    member: str
    mutate: Callable[[Function], Function]


@dataclass(frozen=True)
class Subject:
    """A machine and its mutants. Its own settings say how far it goes on the code as it is; a mutant that lives longer
    is looked for in a few times more runs, since which ones kill it changes with each line of the machine."""

    machine: type[CountedMachine]
    mutants: tuple[Mutant, ...]


@dataclass(frozen=True)
class Killed:
    """After that many runs and steps in all, by a rule or invariant of the machine."""

    runs: int
    steps: int
    by: str
    error: BaseException


class Survived(AssertionError):
    """The machine passed on a mutant, or never came to where the mistake is."""


def passes(subject: Subject, of_seed: int | None = None) -> Explored:
    """The machine on the code as it is. Raises what the machine raises."""
    machine = _fresh(subject.machine, of_seed)
    with counting(machine) as explored:
        run_state_machine_as_test(machine, settings=_settings(subject, of_seed, times=1))
    return explored


def kill(subject: Subject, mutant: Mutant, of_seed: int | None = None) -> Killed:
    """The machine on the mutant. Raises Survived."""
    machine = _fresh(subject.machine, of_seed)
    calls: list[int] = []
    with mock.patch.object(mutant.owner, mutant.member, _planted(mutant, calls)), counting(machine) as explored:
        try:
            run_state_machine_as_test(machine, settings=_settings(subject, of_seed, times=PATIENCE))
        except BaseException as error:
            killer = _first(error)
            if isinstance(killer, (KeyboardInterrupt, *OWN_MISTAKES)):
                raise
        else:
            reached = f"which was called {len(calls)} times" if calls else "which was never called"
            raise Survived(f"{subject.machine.__name__} passes on “{mutant.what}” ({mutant.member}, {reached})")
    assert calls, f"{mutant.member} was not called, and yet something failed"
    before_the_repeat = explored.steps_of[:-1]
    return Killed(len(before_the_repeat), sum(before_the_repeat), _seen_by(killer, subject.machine), killer)


def _planted(mutant: Mutant, calls: list[int]) -> Any:
    """What stands in the owner's place of it: the mutant, or a property that reads it."""
    found = inspect.getattr_static(mutant.owner, mutant.member)
    sound = found.fget if isinstance(found, property) else found
    wrong = mutant.mutate(sound)

    @functools.wraps(sound)
    def planted(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return wrong(*args, **kwargs)

    return property(planted) if isinstance(found, property) else planted


def _settings(subject: Subject, of_seed: int | None, times: int) -> settings:
    of_ci = subject.machine.TestCase.settings
    return settings(
        max_examples=of_ci.max_examples * times,
        stateful_step_count=of_ci.stateful_step_count,
        derandomize=of_seed is None,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
    )


def _fresh(machine: type[CountedMachine], of_seed: int | None) -> type[CountedMachine]:
    """The machine itself, or one like it that draws from another seed."""
    if of_seed is None:
        return machine
    return seed(of_seed)(type(machine.__name__, (machine,), {}))


def _first(error: BaseException) -> BaseException:
    """Teardown runs after a failure too and may fail in turn: what it fails with has the first as its context."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def _seen_by(error: BaseException, machine: type[CountedMachine]) -> str:
    """The innermost function of the machine's own files in the traceback that is a rule, an invariant or teardown."""
    files = {inspect.getsourcefile(one) for one in machine.__mro__ if issubclass(one, CountedMachine)}
    names, at = ["?"], error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        if code.co_filename in files and hasattr(machine, code.co_name):
            names.append(code.co_name)
        at = at.tb_next
    public = [name for name in names if not name.startswith("_")]
    return public[-1]
