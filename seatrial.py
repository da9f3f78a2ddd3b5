"""The public face of seatrial for programs and notebooks, and the door of the command.

outcome = seatrial.run(seatrial.RunOptions("first-soak"))
with seatrial.Run.load(outcome.run_dir) as run:
    print(run.verdict.state, run.history.requests.ok.sum())
"""

import importlib
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.loaded import Run
    from harness.options import Outcome, RunOptions
    from harness.run import run

__all__ = ["Outcome", "Run", "RunOptions", "run"]

_HOMES = {
    "Outcome": "harness.options",
    "Run": "harness.loaded",
    "RunOptions": "harness.options",
    "run": "harness.run",
}


def __getattr__(name: str) -> Any:
    """Imported when asked for, so that `seatrial --help` stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"seatrial has no {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def main() -> int:
    """The console script. Our packages have plain names: a stranger's `harness` must not be run in place of ours."""
    home = Path(__file__).resolve().parent
    found = PathFinder.find_spec("harness")
    if found is not None and found.origin is not None and Path(found.origin).resolve().parent != home / "harness":
        print(
            f"seatrial: `import harness` gives {found.origin}, and not ours in {home / 'harness'}.\n"
            "  Run seatrial in an environment of its own (pipx install seatrial), or from another folder.",
            file=sys.stderr,
        )
        return 3
    from harness.cli import main as command

    return command()
