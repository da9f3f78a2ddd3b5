"""Completes the history of a killed run with the lines that its spools still hold."""

from pathlib import Path

from harness.record.canary import read_reference
from harness.record.recorder import Recorder


def finish_history(directory: Path) -> None:
    """Take all spool lines into the history. It can be repeated. Raises HistoryFull or FileNotFoundError."""
    if not (directory / "run.sqlite").is_file():
        raise FileNotFoundError(f"{directory} holds no run.sqlite")
    reference = directory / "reference.json"
    with Recorder(directory, 0, read_reference(reference) if reference.is_file() else None):
        pass
