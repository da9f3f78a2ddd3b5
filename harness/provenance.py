"""The version and commit of the running seatrial, and whether its working tree had uncommitted changes."""

import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Provenance:
    """Written into every plan and shown on the first line of every report."""

    seatrial: str
    commit: str | None
    dirty: bool


def provenance() -> Provenance:
    """The provenance of the running code. An installed wheel has no commit."""
    try:
        number = version("seatrial")
    except PackageNotFoundError:
        number = "0+source"
    commit = _git("rev-parse", "HEAD")
    return Provenance(number, commit, bool(commit and _git("status", "--porcelain", "--untracked-files=no")))


def _git(*arguments: str) -> str | None:
    """The output of a git command; None without git, or when ROOT is not the root of a checkout."""
    if not (ROOT / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
