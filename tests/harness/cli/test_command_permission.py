"""A run directory may come from a stranger: whatever is tampered with in it, no program of it is started unasked."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.app import judge, nightly, report
from harness.cli.trial import replayed
from harness.exits import Refusal
from harness.live.target import start
from harness.load.preflight import TargetProblem
from harness.options import RunOptions
from harness.plan.plan import Plan, make
from harness.prepare import prepare
from harness.provenance import provenance
from harness.run import run
from runtime.points import catalogue

SMALL = """schema = 1
name = "small"
means = "nothing"
seed = 3
[phases]
trial = "60s"
[[load]]
id = "chat"
rate = "1/s"
{target}
"""
LIMITS = '[limits]\nrequests = 900\ntokens = 900_000\nin_flight = 1\nrate = "2/s"\nwall = "600s"\n'


def command_scenario(marker: Path) -> str:
    """A scenario whose target is a program that leaves `marker` behind."""
    word = json.dumps([sys.executable, "-c", f"open({str(marker)!r}, 'w')", "{port}", "\x1b[2J"])
    return SMALL.format(target=f'[target]\nkind = "command"\ncommand = {word}\nready_max = "5s"\n{LIMITS}')


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "it-was-started"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """An honest run directory of a built-in target."""
    folder = tmp_path / "runs" / "2026-01-01_000000_abcd"
    folder.mkdir(parents=True)
    plan = {"run_id": folder.name, "seed": 3, "commit": None, "target": {"kind": "builtin"}, "scenario": {}}
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "options.json").write_text(json.dumps({"scenario": "first-soak"}))
    (folder / "scenario.toml").write_text(SMALL.format(target=""))
    return folder


def swapped(run_dir: Path, bad: str) -> None:
    (run_dir / "scenario.toml").write_text(bad)


def linked(run_dir: Path, bad: str) -> None:
    outside = run_dir.parent.parent / "outside.toml"
    outside.write_text(bad)
    (run_dir / "scenario.toml").unlink()
    (run_dir / "scenario.toml").symlink_to(outside)


def linked_through_latest(run_dir: Path, bad: str) -> None:
    swapped(run_dir, bad)
    (run_dir.parent / "latest").symlink_to(run_dir.name)


def named_in_options(run_dir: Path, bad: str) -> None:
    """Options that name another file, which is taken from nobody: the kept scenario is the one that would run."""
    swapped(run_dir, bad)
    (run_dir / "options.json").write_text(json.dumps({"scenario": str(run_dir / "scenario.toml"), "minutes": 1.0}))


def plan_that_lies(run_dir: Path, bad: str) -> None:
    swapped(run_dir, bad)
    (run_dir / "plan.json").write_text(json.dumps({"run_id": "x", "seed": 3, "commit": None, "scenario": None}))


TAMPERED = [swapped, linked, linked_through_latest, named_in_options, plan_that_lies]


@pytest.mark.parametrize("tamper", TAMPERED)
def test_a_replay_of_a_tampered_directory_shows_the_true_command_and_starts_nothing(
    run_dir: Path, marker: Path, tamper: Callable[[Path, str], None]
) -> None:
    tamper(run_dir, command_scenario(marker))
    before = sorted(run_dir.parent.iterdir())
    latest = "latest" if tamper is linked_through_latest else str(run_dir)
    with pytest.raises(Refusal, match=r"--allow-command") as refused:
        replayed(latest, run_dir.parent, None, (), allow_command=False)
    assert str(marker) in str(refused.value)
    assert "\x1b" not in str(refused.value)
    assert not marker.exists()
    assert sorted(run_dir.parent.iterdir()) == before, "a run directory was made, or the link to the latest one moved"


def test_permissions_in_the_options_of_a_run_directory_are_refused(run_dir: Path, marker: Path) -> None:
    swapped(run_dir, command_scenario(marker))
    (run_dir / "options.json").write_text(json.dumps({"allow_command": True}))
    with pytest.raises(Refusal, match="allow_command"):
        replayed(str(run_dir), run_dir.parent, None, (), allow_command=False)
    assert not marker.exists()


@pytest.mark.parametrize("tamper", [swapped, linked])
def test_a_night_over_a_run_directory_starts_nothing(
    run_dir: Path, marker: Path, tamper: Callable[[Path, str], None]
) -> None:
    tamper(run_dir, command_scenario(marker))
    with pytest.raises(Refusal, match=r"--allow-command"):
        nightly(run_dir, run_dir.parent)
    assert not marker.exists()


def test_a_night_over_a_link_into_a_run_directory_starts_nothing(run_dir: Path, marker: Path, tmp_path: Path) -> None:
    swapped(run_dir, command_scenario(marker))
    folder = tmp_path / "night"
    folder.mkdir()
    (folder / "a.toml").symlink_to(run_dir / "scenario.toml")
    with pytest.raises(Refusal, match=r"--allow-command"):
        nightly(folder, run_dir.parent)
    assert not marker.exists()


def test_judge_and_report_start_nothing(run_dir: Path, marker: Path) -> None:
    swapped(run_dir, command_scenario(marker))
    with pytest.raises(Refusal):
        judge(str(run_dir), run_dir.parent)
    assert report(str(run_dir), run_dir.parent) == 0
    assert not marker.exists()


def _plan(scenario: Path) -> Plan:
    return make(prepare(RunOptions(str(scenario)), catalogue()), catalogue(), "r", provenance())


def test_the_place_that_starts_programs_asks_for_itself(run_dir: Path, marker: Path, tmp_path: Path) -> None:
    swapped(run_dir, command_scenario(marker))
    with pytest.raises(TargetProblem, match=r"--allow-command"):
        start(_plan(run_dir / "scenario.toml"), tmp_path, allow_command=False)
    assert not marker.exists()


def test_with_permission_the_program_is_started_and_the_text_that_was_read_is_kept(
    run_dir: Path, marker: Path, tmp_path: Path
) -> None:
    """The control of all tests above; and a file that changes after it was read is not what is kept."""
    swapped(run_dir, command_scenario(marker))
    asked = RunOptions(str(run_dir / "scenario.toml"), tmp_path / "again", allow_command=True)

    def say(line: str) -> None:
        if "starting the target" in line:
            swapped(run_dir, "changed")

    with pytest.raises(Refusal, match="the command ended"):
        run(asked, say=say)
    assert marker.exists()
    kept = next((tmp_path / "again").glob("2*/scenario.toml"))
    assert kept.read_text() == command_scenario(marker)
    shutil.rmtree(kept.parent)
    with pytest.raises(Refusal):
        run(replace(asked, allow_command=False), say=say)
    assert not os.listdir(tmp_path / "again")
