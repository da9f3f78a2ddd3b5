"""Every planted bug, by whom it was found and when.

    python -m tests.planted.virtual.table

Exits with 1 when one of them was not found by the judge that is meant to find it.
"""

import sys
import tempfile
from pathlib import Path

from tests.planted.virtual.bugs import BUGS
from tests.planted.virtual.trial import planted, run

ROW = "{:<5} {:<31} {:<9} {:<30} {:>10} {:>7}"


def main() -> int:
    """Print the table; how many were missed decides the exit code."""
    missed = 0
    print(ROW.format("bug", "", "scenario", "found by", "virtual s", "wall s"))
    for bug in BUGS:
        with planted(bug):
            trial = run(bug.scenario)
        found = bug.judge in trial.failed
        missed += not found
        seen_s = trial.seen_s(bug.judge) if found else None
        seen = "-" if seen_s is None else f"{seen_s:.2f}"
        by = bug.judge if found else f"NOT by {bug.judge}"
        print(ROW.format(bug.id, bug.name, bug.scenario, by, seen, f"{trial.wall_s:.2f}"), flush=True)
    missed += _on_torch()
    return 1 if missed else 0


def _on_torch() -> int:
    """How many of the two that need real tensors were missed."""
    from tests.planted.virtual.on_torch import answer, swapped

    with tempfile.TemporaryDirectory() as folder:
        off, lost = answer(Path(folder), "M9"), swapped(Path(folder), "M13")
    by = f"tokens, {off.corrupt} of {len(off.compared)}" if off.corrupt else "NOT by tokens"
    print(ROW.format("M9", "position off by one", "torch", by, "-", f"{off.wall_s:.2f}"))
    by = f"kv.tags, {lost.breaches} blocks" if lost.breaches else "NOT by kv.tags"
    print(ROW.format("M13", "swap into a temporary", "torch", by, "-", f"{lost.wall_s:.2f}"))
    return (not off.corrupt) + (not lost.breaches)


if __name__ == "__main__":
    sys.exit(main())
