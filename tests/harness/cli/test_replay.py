import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.cli.trial import replayed, trial
from harness.exits import Refusal
from harness.options import Outcome, RunOptions


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[RunOptions]:
    """What would have been run; nothing is."""
    seen: list[RunOptions] = []
    fake = ModuleType("harness.run")

    def run(asked: RunOptions) -> Outcome:
        seen.append(asked)
        return Outcome(Path("runs/x"), 1)

    fake.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "harness.run", fake)
    return seen


def recorded(run_dir: Path, **plan: Any) -> Path:
    run_dir.mkdir(parents=True)
    whole = {"run_id": "r1", "seed": 7, "commit": None, "target": {"kind": "builtin"}, **plan}
    (run_dir / "plan.json").write_text(json.dumps(whole), encoding="utf-8")
    (run_dir / "scenario.toml").write_text("schema = 1\n", encoding="utf-8")
    return run_dir


def again(run_dir: Path, **more: Any) -> int:
    typed = {"seed": None, "allow_hosts": (), "allow_command": False, **more}
    return replayed(
        str(run_dir), run_dir.parent, typed["seed"], typed["allow_hosts"], allow_command=typed["allow_command"]
    )


def test_a_replay_has_the_seed_the_scenario_and_the_options_of_the_run(
    tmp_path: Path, started: list[RunOptions]
) -> None:
    run_dir = recorded(tmp_path / "r1")
    first = RunOptions("first-soak", tmp_path, minutes=2.0, model="m", allow_hosts=("gpu:8000",))
    (run_dir / "options.json").write_text(json.dumps(first.to_json()), encoding="utf-8")
    assert again(run_dir) == 1
    assert started == [
        RunOptions(str(run_dir / "scenario.toml"), tmp_path, seed=7, minutes=2.0, model="m", replay_of="r1")
    ]


def test_a_replay_has_the_cost_table_that_the_run_had_whatever_became_of_the_file(
    tmp_path: Path, started: list[RunOptions]
) -> None:
    run_dir = recorded(tmp_path / "r1")
    first = RunOptions("pr-cut-and-oom", tmp_path, costs="/gone/table.json")
    (run_dir / "options.json").write_text(json.dumps(first.to_json()), encoding="utf-8")
    (run_dir / "costs.json").write_text("{}", encoding="utf-8")
    again(run_dir)
    assert started[0].costs == str(run_dir / "costs.json")


def test_permissions_are_never_taken_from_a_run_directory(tmp_path: Path, started: list[RunOptions]) -> None:
    run_dir = recorded(tmp_path / "r1")
    (run_dir / "options.json").write_text('{"allow_hosts": ["victim:80"], "scenario": "x"}', encoding="utf-8")
    with pytest.raises(Refusal, match="allow_hosts"):
        again(run_dir)
    assert started == []


def test_the_permission_to_start_a_command_is_the_one_that_was_typed(tmp_path: Path, started: list[RunOptions]) -> None:
    run_dir = recorded(tmp_path / "r1")
    again(run_dir)
    again(run_dir, allow_command=True)
    assert [one.allow_command for one in started] == [False, True]


def test_another_commit_is_said(tmp_path: Path, started: list[RunOptions], capsys: pytest.CaptureFixture[str]) -> None:
    again(recorded(tmp_path / "r1", commit="abc", dirty=True))
    said = capsys.readouterr().err
    assert "the recorded run used commit abc" in said
    assert "uncommitted changes" in said


def test_a_folder_without_a_scenario_is_refused(tmp_path: Path, started: list[RunOptions]) -> None:
    run_dir = recorded(tmp_path / "r1")
    (run_dir / "scenario.toml").unlink()
    with pytest.raises(Refusal, match=r"no scenario\.toml"):
        again(run_dir)


def test_report_only_is_0_for_a_verdict_and_hides_nothing_else(
    started: list[RunOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = RunOptions("clean", Path("runs"))
    assert trial(asked) == 1
    assert trial(asked, report_only=True) == 0
    for code in (3, 130):
        sys.modules["harness.run"].run = lambda _, code=code: Outcome(Path("x"), code)  # type: ignore[attr-defined]
        assert trial(asked, report_only=True) == code


def test_options_survive_their_file_without_permissions(tmp_path: Path) -> None:
    asked = RunOptions("s", tmp_path, 3, "http://h:1", "m", 2.5, ("h:1",), True)
    back = RunOptions.from_json(json.loads(json.dumps(asked.to_json())), runs_dir=tmp_path)
    assert back == RunOptions("s", tmp_path, 3, "http://h:1", "m", 2.5)
