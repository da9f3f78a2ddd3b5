"""Bugs of real runtimes against the library alone: each is found by the scenario that is nearest to it."""

import pytest

from tests.planted.zoo import table
from tests.planted.zoo.bug import BUGS, Bug

QUICK = {"Z05", "Z08", "Z13", "Z17", "Z58", "Z77", "Z107"}
"""Found within seconds, one or two of each layer; the others are for the nights."""


MISSED = {
    "Z97": "UNKNOWN: a fault did not lead to the refusals that were expected",
    "Z109": "fewer seats cost nothing where memory is what is short",
    "Z125": "fewer seats cost nothing where memory is what is short",
}
UNNAMED = {
    "Z70": "the check of fast-forward sees it first, as rows that nobody expected",
    "Z104": "seen by outcomes that no fault allows, not as deadlines that nobody watches",
}


def marks(bug: Bug) -> list[pytest.MarkDecorator]:
    found = [] if bug.id in QUICK else [pytest.mark.slow, pytest.mark.soak]
    if why := (MISSED | UNNAMED).get(bug.id):
        found.append(pytest.mark.xfail(strict=True, reason=why))
    return found


@pytest.mark.parametrize("bug", [pytest.param(bug, id=bug.id, marks=marks(bug)) for bug in BUGS])
def test_the_library_finds_it_and_names_it(bug: Bug) -> None:
    found = table.find(bug, only_likely=True)
    assert found is not None, f"{bug.likely} passes with it"
    assert found.named, table.words(found.by)


def test_each_bug_has_a_number_of_its_own_and_names_something() -> None:
    assert len({bug.id for bug in BUGS}) == len(BUGS)
    assert all(bug.names for bug in BUGS)
    assert len({bug.layer for bug in BUGS}) >= 8
