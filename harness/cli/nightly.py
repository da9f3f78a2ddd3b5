"""`seatrial nightly`: check the options and run the night."""

import os
from functools import partial
from pathlib import Path

from harness.exits import Refusal
from harness.nightly.night import NightOptions, nightly


def run_night(
    folder: Path,
    runs_dir: Path,
    *,
    only_virtual: bool,
    allow_hosts: tuple[str, ...],
    allow_command: bool,
    night: str | None,
) -> int:
    try:
        options = NightOptions(folder, runs_dir, only_virtual, allow_hosts, night, allow_command)
    except ValueError as problem:
        raise Refusal(str(problem)) from None
    return nightly(options, os.environ, partial(print, flush=True))  # a log that is followed over hours
