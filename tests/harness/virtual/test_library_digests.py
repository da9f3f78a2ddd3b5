"""Each virtual scenario of the library has one history, with fast-forward and without it."""

from pathlib import Path

import pytest

from harness.coverage import virtual_scenarios
from harness.options import RunOptions
from harness.run import run
from tests.harness.virtual.both import skipping_and_stepping

BY_DAY = {"pr-cut-and-oom", "pr-shared-prefix"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in BY_DAY else pytest.mark.soak) for name in virtual_scenarios()]
)
def test_a_library_scenario_has_the_same_history_with_fast_forward_and_without(name: str, tmp_path: Path) -> None:
    skipped, stepped = skipping_and_stepping(lambda: run(RunOptions(name, tmp_path), say=lambda line: None))
    assert skipped == stepped
