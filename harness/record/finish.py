"""Take in what the spools of a run still hold: nothing for one that ended in good order, the rest of a killed one."""

from pathlib import Path

from harness.record.canary import read_reference
from harness.record.recorder import Recorder


def finish_history(directory: Path) -> None:
    """Safe to repeat. Raises HistoryFull when the disk has no room for it, FileNotFoundError without a history."""
    if not (directory / "run.sqlite").is_file():
        raise FileNotFoundError(f"{directory} holds no run.sqlite")
    reference = directory / "reference.json"
    with Recorder(directory, 0, read_reference(reference) if reference.is_file() else None):
        pass
