"""The table of the zoo: each bug, the first scenario of the library that says FAIL, and who says it.

    python -m tests.planted.zoo.table [--only Z13]

A bug is found when a verdict is FAIL, and named when a FAIL holds the words that name its owner or mechanism.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from assertions.verdict import Judged, State
from harness.coverage import virtual_scenarios
from tests.planted.virtual.trial import run
from tests.planted.zoo import contract, leaving, memory, scheduling  # noqa: F401 - they register their bugs
from tests.planted.zoo.bug import BUGS, Bug

ROW = "{:<5} {:<10} {:<20} {:<28} {:<5} {:>6}"
VIRTUAL_OF = {"clean": "pr-repeats"}
"""A live scenario that is tried first where its bug shows: the virtual one that is nearest to it."""


@dataclass(frozen=True)
class Found:
    """What came of one bug. `by` is the judge whose words name it, else the first that says FAIL."""

    scenario: str
    by: Judged
    named: bool
    wall_s: float


def scenarios(bug: Bug) -> Iterator[str]:
    """The likely scenario first, then the others of the library."""
    likely = VIRTUAL_OF.get(bug.likely, bug.likely)
    yield likely
    yield from (name for name in virtual_scenarios() if name != likely)


def find(bug: Bug, only_likely: bool = False) -> Found | None:
    """Run the library until a verdict is FAIL."""
    wall_s = 0.0
    for name in scenarios(bug):
        with pytest.MonkeyPatch.context() as patch:
            bug.plant(patch)
            trial = run(name)
        wall_s += trial.wall_s
        failed = [judged for judged in trial.verdict.judges if judged.state is State.FAIL and judged.required]
        if failed:
            named = [judged for judged in failed if bug.names in words(judged)]
            return Found(name, (named or failed)[0], bool(named), wall_s)
        if only_likely:
            return None
    return None


def words(judged: Judged) -> str:
    """All that a FAIL says."""
    return " ".join([judged.name, judged.summary, judged.owner or "", *(each.text for each in judged.evidence)])


def main(argv: list[str] | None = None) -> int:
    """Print the table. Exits with 1 when a bug was not found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="a bug, by its id; may be given again")
    parser.add_argument("--words", action="store_true", help="print what the judge said")
    asked = parser.parse_args(argv)
    chosen = [bug for bug in BUGS if asked.only is None or bug.id in asked.only]
    missed = named = 0
    print(ROW.format("bug", "layer", "scenario", "found by", "named", "wall s"))
    for bug in chosen:
        found = find(bug)
        missed += found is None
        named += found is not None and found.named
        if found is None:
            print(ROW.format(bug.id, bug.layer, "-", "NOT FOUND", "", ""), flush=True)
            continue
        tells = "yes" if found.named else "no"
        print(ROW.format(bug.id, bug.layer, found.scenario, found.by.name, tells, f"{found.wall_s:.1f}"), flush=True)
        if asked.words:
            print(f"      {words(found.by)[:300]}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} found, {named} named")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
