from pathlib import Path

import pytest

from harness.options import RunOptions
from harness.prepare import prepare
from runtime.points import catalogue
from scenarios import library
from scenarios.problems import ScenarioProblems


def test_nothing_typed_changes_nothing() -> None:
    document = prepare(RunOptions("first-soak"), catalogue())
    assert (document.scenario.name, document.scenario.seed) == ("first-soak", 7)


def test_what_was_typed_wins_over_the_file() -> None:
    scenario = prepare(RunOptions("first-soak", seed=9, minutes=3, model="m"), catalogue()).scenario
    assert (scenario.seed, scenario.phases.trial, scenario.target.model) == (9, 180.0, "m")


def test_a_typed_target_replaces_the_built_in_one() -> None:
    target = prepare(RunOptions("clean", target="http://127.0.0.1:8000"), catalogue()).scenario.target
    assert (target.kind, target.url, dict(target.knobs)) == ("url", "http://127.0.0.1:8000", {})


def test_a_rule_that_breaks_by_what_was_typed_is_refused() -> None:
    with pytest.raises(ScenarioProblems, match="limits"):
        prepare(RunOptions("clean", target="http://gpu.example:8000"), catalogue())


def test_a_fault_point_that_does_not_exist_is_refused_with_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(
        'schema = 1\nname = "x"\nmeans = "y"\nphases = { trial = "1m" }\nload = [{ id = "a", rate = "1/s" }]\n'
        'fault = [{ id = "f", do = "kv.tak: oom", when = { at = "1s" } }]\n',
        encoding="utf-8",
    )
    with pytest.raises(ScenarioProblems, match=r"kv\.take"):
        prepare(RunOptions(str(path)), catalogue())


def test_metrics_and_pid_that_were_typed_are_the_targets():
    typed = RunOptions("your-server", target="http://127.0.0.1:7", metrics="http://127.0.0.1:7/m", pid=12)
    target = prepare(typed, catalogue()).scenario.target
    assert (target.url, target.metrics, target.pid) == ("http://127.0.0.1:7", "http://127.0.0.1:7/m", 12)


def test_another_target_does_not_inherit_the_process_and_metrics_of_the_scenarios(tmp_path):
    text = library.find("your-server").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(text.replace('kind = "url"', 'kind = "url"\npid = 1\nmetrics = "http://127.0.0.1:8000/metrics"'))
    target = prepare(RunOptions(str(path), target="http://127.0.0.1:9000"), catalogue()).scenario.target
    assert (target.url, target.pid, target.metrics) == ("http://127.0.0.1:9000", None, None)


def test_pid_of_a_server_that_we_start_is_refused():
    with pytest.raises(ScenarioProblems, match='kind = "builtin" sets its own pid'):
        prepare(RunOptions("clean", pid=12), catalogue())


def test_pid_is_not_written_down_for_a_replay():
    assert "pid" not in RunOptions("s", metrics="http://h/m", pid=12).to_json()
    with pytest.raises(ValueError, match="--pid 0"):
        RunOptions("s", pid=0)
