"""Find the run directory that a command-line argument names: a path, a run id or the end of one, or `latest`."""

from difflib import get_close_matches
from pathlib import Path

from harness.exits import Refusal

LATEST = "latest"


def find(given: str, runs_dir: Path) -> Path:
    """Return the run directory. Raises Refusal when no run or several runs match; the text lists candidates."""
    path = Path(given)
    if given != LATEST and path.is_dir():
        return path
    if given == LATEST:
        return _latest(runs_dir)
    runs = _runs(runs_dir)
    exact = [run for run in runs if run.name == given]
    ending = [run for run in runs if run.name.endswith(given)]
    chosen = exact or ending
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        some = ", ".join(run.name for run in chosen[-5:])
        raise Refusal(f"{given!r} matches {len(chosen)} runs in {runs_dir}: {some}; give more of the name")
    names = [run.name for run in runs]
    near = get_close_matches(given, names, 1)
    remedy = f"did you mean {near[0]}?" if near else "give a run directory, a run id or `latest`"
    raise Refusal(f"no run {given!r}: it is not a folder, and no run in {runs_dir} ({len(runs)} runs); {remedy}")


def _latest(runs_dir: Path) -> Path:
    link = runs_dir / LATEST
    if link.is_dir():
        return link.resolve()
    runs = _runs(runs_dir)
    if not runs:
        raise Refusal(f"no run in {runs_dir} yet: start one with `seatrial run first-soak`, or give --runs-dir")
    return runs[-1]


def _runs(runs_dir: Path) -> list[Path]:
    """All runs, sorted by name. Names start with their date, so the last run is the newest."""
    if not runs_dir.is_dir():
        return []
    return sorted(path.parent for path in runs_dir.glob("*/plan.json") if not path.parent.is_symlink())
