"""`python -m harness.nightly.worker OPTIONS RUNS_DIR PERMISSIONS`: one trial of a night, in a process of its own.

Prints one JSON line when the trial is judged. All other output goes into the night's log.
"""

import json
import sys
from pathlib import Path

from harness.exits import guarded
from harness.options import RunOptions
from harness.streams import steady


def main(argv: list[str]) -> int:
    """Run one trial; return the exit code of `seatrial run`."""
    return guarded(lambda: _run(argv), sys.stderr)


def _run(argv: list[str]) -> int:
    from harness.run import run

    may = json.loads(argv[2])
    options = RunOptions.from_json(
        json.loads(argv[0]),
        runs_dir=Path(argv[1]),
        allow_hosts=tuple(may["allow_hosts"]),
        allow_command=may["allow_command"],
    )
    with steady():
        outcome = run(options)
        print(json.dumps({"e": "judged", "run_dir": str(outcome.run_dir), "exit": int(outcome.exit)}))
    return outcome.exit


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
