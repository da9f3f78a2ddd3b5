"""Each machine passes on the code as it is, and fails on each of its mutants."""

import re
from pathlib import Path

import pytest
from hypothesis.stateful import rule

from tests.mutants.mutant import Mutant, Subject, Survived, kill, passes
from tests.mutants.table import SUBJECTS, lines
from tests.steps import CountedMachine, machine_settings

EACH = [
    pytest.param(subject, mutant, id=f"{subject.machine.__name__}-{mutant.what}")
    for subject in SUBJECTS
    for mutant in subject.mutants
]

UNPROVEN: set[str] = set()
"""A ratchet: nothing may join."""


@pytest.mark.parametrize(("subject", "mutant"), EACH)
def test_the_machine_kills_its_mutant(subject: Subject, mutant: Mutant):
    killed = kill(subject, mutant)
    assert killed.by != "?", f"nothing of {subject.machine.__name__} failed: {killed.error!r}"


@pytest.mark.soak  # the same draws as in the machine's own test, which is never slow
@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.machine.__name__)
def test_the_machine_passes_on_the_code_as_it_is_with_the_same_settings(subject: Subject):
    assert passes(subject).steps > 0


def test_every_machine_has_mutants_and_no_two_of_its_are_the_same():
    tests = Path(__file__).parent.parent
    files = [path.read_text() for path in tests.rglob("test_*.py") if path.parent not in (tests, tests / "mutants")]
    machines = {name for text in files for name in re.findall(r"^Test\w+ = (\w+)\.TestCase", text, re.MULTILINE)}
    proven = {subject.machine.__name__ for subject in SUBJECTS}
    assert (machines - proven, proven - machines) == (UNPROVEN, set()), "which machine has no mutants?"
    for subject in SUBJECTS:
        assert len({mutant.what for mutant in subject.mutants}) == len(subject.mutants) >= 3


class Stack:
    def push(self, n: int) -> int:
        return n

    def drop(self) -> None:
        pass


class Pusher(CountedMachine):
    @rule()
    def push(self) -> None:
        assert Stack().push(3) == 3


Pusher.TestCase.settings = machine_settings(runs=5, steps=5)


def test_a_mutant_that_is_never_called_or_changes_nothing_has_survived():
    unreached = Mutant("drops twice", Stack, "drop", lambda sound: lambda self: None)
    equal = Mutant("pushes the same", Stack, "push", lambda sound: sound)
    subject = Subject(Pusher, (unreached, equal))
    with pytest.raises(Survived, match=r"Pusher passes on “drops twice” \(drop, which was never called\)"):
        kill(subject, unreached)
    with pytest.raises(Survived, match=r"\(push, which was called \d+ times\)"):
        kill(subject, equal)


def test_a_mutant_that_is_itself_broken_proves_nothing():
    broken = Mutant("knows no third argument", Stack, "push", lambda sound: lambda self: None)
    with pytest.raises(TypeError):
        kill(Subject(Pusher, (broken,)), broken)


def test_a_killed_mutant_is_gone_and_told_with_the_rule_that_saw_it():
    wrong = Mutant("pushes one more", Stack, "push", lambda sound: lambda self, n: sound(self, n + 1))
    killed = kill(Subject(Pusher, (wrong,)), wrong)
    assert (killed.steps, killed.by) == (0, "push")
    assert Stack().push(3) == 3
    assert CountedMachine.explored is None


@pytest.mark.soak  # each kill is a fast test already
@pytest.mark.slow
def test_the_table_tells_every_mutant_and_that_none_survived():
    told = list(lines(seeds=0))
    assert told[-1].endswith(": 0 survived")
    assert len(told) == len(SUBJECTS) + len(EACH) + 1
