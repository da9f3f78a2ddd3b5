"""The histories of two runs of one scenario: every run of steps skipped and none checked, and every step run.

A short trial checks all runs of fast-forward and so skips none: what is held together here must skip.
"""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.options import Outcome
from harness.record.digest import table_digests
from harness.virtual.world import World

NEVER = 1 << 30
"""One run in so many is checked."""
WORLD = "harness.virtual.drive.World"


def skipping_and_stepping(
    trial: Callable[[], Outcome], *, must_skip: bool = True
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the table digests of `trial` with fast-forward that checks nothing, and without fast-forward.

    With `must_skip` the first run has skipped steps; a drawn scenario may have none to skip.
    """
    worlds: list[World] = []

    def skipping(*args: object, **options: object) -> World:
        worlds.append(World(*args, check_one_in=NEVER, **options))  # type: ignore[arg-type]
        return worlds[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WORLD, skipping)
        first = _digests(trial())
        patch.setattr(WORLD, functools.partial(World, fast_forward=False))
        second = _digests(trial())
    (world,) = worlds
    assert world.fast_forward is not None
    assert world.fast_forward.skipped > 0 or not must_skip, "no step was skipped, so nothing was held together"
    return first, second


def _digests(outcome: Outcome) -> dict[str, str]:
    return table_digests(Path(outcome.run_dir) / "run.sqlite")
