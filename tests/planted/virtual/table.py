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
NOT_YET = {"M13": "swap writes into a temporary: nothing swaps yet, so nobody would meet it"}


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
    missed += not _on_torch()
    for number, why in NOT_YET.items():
        print(f"{number:<5} {why}")
    return 1 if missed else 0


def _on_torch() -> bool:
    from tests.planted.virtual.on_torch import answer

    with tempfile.TemporaryDirectory() as folder:
        answered = answer(Path(folder), off_by_one=True)
    by = f"tokens, {answered.corrupt} of {len(answered.compared)}" if answered.corrupt else "NOT by tokens"
    print(ROW.format("M9", "position off by one", "torch", by, "-", f"{answered.wall_s:.2f}"))
    return answered.corrupt > 0


if __name__ == "__main__":
    sys.exit(main())
