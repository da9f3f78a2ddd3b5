"""Steps of stateful machines: what counts them, how many a machine takes, and that most of them are worth it.

A step is one rule that ran to its end. Counting is on while somebody asks for it (`counting`): the report at the end of
a test run (steps_report.py), or the proof that a mutant is killed (mutants/). Nothing is counted across processes here.

Hypothesis switches a share of the rules off in each run (swarm testing, Groce et al. 2012), and draws the share evenly
from none to all: with ten rules, every second run has hardly any left and repeats them. Here it is a third at most.
Measured on the mutants of the ledger and of the fault injector, six seeds each: 10 of 114 survived before, 3 do now,
and a machine needed a third of the time to kill them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant

PROFILE_EXAMPLES = 100
"""What Hypothesis tries unless told otherwise; a profile with more of them gives machines more runs in proportion."""


@dataclass
class Explored:
    """What one machine did while it was counted. Runs are one after the other."""

    steps_of: list[int] = field(default_factory=list)
    """Of each run, in order; the last one may still go on."""

    @property
    def runs(self) -> int:
        """Each a fresh machine with its own order of rules."""
        return len(self.steps_of)

    @property
    def steps(self) -> int:
        """Rules that ran to their end, of all runs."""
        return sum(self.steps_of)


@dataclass(frozen=True)
class _AllBut:
    """What Hypothesis asks which rules are on."""

    off: frozenset[str]

    def is_enabled(self, name: str) -> bool:
        return name not in self.off


class CountedMachine(RuleBasedStateMachine):
    """Base of every machine here: Hypothesis checks invariants once at the start and once after each rule."""

    explored: ClassVar[Explored | None] = None
    """Filled by `counting`, for as long as it lasts."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = False
        rules = self._rules_strategy  # an inner name of Hypothesis; test_steps.py tells when it no longer works
        names = sorted({rule.function.__name__ for rule in rules.rules})
        off = st.frozensets(st.sampled_from(names), max_size=len(names) // 3)
        rules.enabled_rules_strategy = st.shared(off.map(_AllBut), key=("rules off", self))

    @invariant(check_during_init=True)
    def a_step_is_counted(self) -> None:
        if self.explored is None:
            return
        if self._begun:
            self.explored.steps_of[-1] += 1
        else:
            self.explored.steps_of.append(0)
        self._begun = True


@contextmanager
def counting(machine: type[CountedMachine]) -> Iterator[Explored]:
    """Count the runs and steps of `machine` in here."""
    explored = machine.explored = Explored()
    try:
        yield explored
    finally:
        machine.explored = None


def machine_settings(runs: int, steps: int) -> settings:
    """`runs` runs of at most `steps` steps; a profile with more examples than usual gives as many times more runs."""
    return settings(max_examples=examples(runs), stateful_step_count=steps)


def examples(n: int) -> int:
    """`n`, times as many as the profile tries more than usual."""
    return n * max(1, settings.default.max_examples // PROFILE_EXAMPLES)
