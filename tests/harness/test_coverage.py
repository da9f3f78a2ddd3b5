"""The library takes every path of the runtime that virtual time has, and says where it does."""

import pytest

from harness.cli import library as command
from harness.coverage import holes, taken, virtual_scenarios
from harness.exits import Exit
from runtime.counters import COUNTERS, LIVE_ONLY
from scenarios import library


@pytest.mark.slow
def test_the_library_takes_every_path_that_virtual_time_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.show_coverage() == Exit.PASS, capsys.readouterr().out
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= command.COLUMNS for line in lines)
    assert f"{len(COUNTERS) - len(LIVE_ONLY)} paths taken in virtual time" in lines[-1]


def test_a_path_that_no_scenario_takes_is_a_hole_unless_only_real_time_has_it() -> None:
    marks = taken("pr-repeats")
    assert marks["prefix.full_hit"]
    left = holes({"pr-repeats": marks})
    assert "swap.in" in left
    assert "prefix.full_hit" not in left
    assert not LIVE_ONLY & set(left)


def test_a_run_counts_no_path_that_is_not_in_the_list() -> None:
    assert set(taken("pr-shared-prefix")) <= set(COUNTERS)


def test_each_scenario_is_listed_with_what_its_fail_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.show() == Exit.PASS
    shown = capsys.readouterr().out
    assert all(name in shown for name in library.names())
    assert "pr-leave (virtual)" in shown
    assert set(virtual_scenarios()) >= {"pr-leave", "pr-device"}
