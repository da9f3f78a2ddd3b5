"""`seatrial library`: list the scenarios that are shipped, or the paths of the runtime that they take."""

import textwrap
from collections import Counter
from collections.abc import Mapping

from harness.coverage import coverage, holes, virtual_scenarios
from harness.exits import Exit
from runtime.counters import COUNTERS, LIVE_ONLY
from scenarios import library

COLUMNS = 80
NAMED_MAX = 4
"""The scenarios that a line names, those that take the path most often."""


def show() -> int:
    """Print each scenario with the meaning of its FAIL."""
    virtual = set(virtual_scenarios())
    for entry in library.entries():
        print(f"{entry.name}{' (virtual)' if entry.name in virtual else ''}")
        print(textwrap.fill(entry.means, COLUMNS, initial_indent="    ", subsequent_indent="    "))
    return Exit.PASS


def show_coverage() -> int:
    """Run each virtual scenario and print who takes which path. A path that none takes is a hole: exit 1."""
    found = coverage(virtual_scenarios(), lambda name: print(f"running {name}", flush=True))
    width = max(map(len, COUNTERS))
    for path, meaning in COUNTERS.items():
        print(textwrap.shorten(f"{path:<{width}} {meaning}", COLUMNS, placeholder=" ..."))
        print(textwrap.fill(f"{_takers(path, found)}", COLUMNS, initial_indent="    ", subsequent_indent="    "))
    left = holes(found)
    print(
        f"{len(COUNTERS) - len(left) - len(LIVE_ONLY)} paths taken in virtual time, {len(LIVE_ONLY)} only in real time"
    )
    if left:
        print(textwrap.fill(f"no scenario takes: {', '.join(left)}", COLUMNS))
    return Exit.FAIL if left else Exit.PASS


def _takers(path: str, found: Mapping[str, Counter[str]]) -> str:
    counts = Counter({name: marks[path] for name, marks in found.items() if marks[path]})
    if not counts:
        return "only in real time" if path in LIVE_ONLY else "NO SCENARIO"
    named = ", ".join(f"{name} {n:,}" for name, n in counts.most_common(NAMED_MAX))
    more = len(counts) - NAMED_MAX
    return f"{named} and {more} more" if more > 0 else named
