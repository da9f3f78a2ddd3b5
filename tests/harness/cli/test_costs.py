"""A cost table is looked at before anything is started, and a bad one is one clear line."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.costs import builtin_tables, cost_table
from harness.exits import Refusal
from runtime.device.costs import DEFAULT, read_table
from tests.harness.cli.conftest import Seatrial

GOOD = read_table(DEFAULT).to_json()


def written(path: Path, plain: object) -> str:
    path.write_text(json.dumps(plain), encoding="utf-8")
    return str(path)


def test_a_virtual_run_has_our_table_or_the_one_that_was_asked_for(tmp_path: Path) -> None:
    assert cost_table(None, "live") is None
    assert cost_table(None, "virtual") == cost_table(DEFAULT, "virtual") == read_table(DEFAULT)
    table = cost_table(written(tmp_path / "mine.json", GOOD | {"name": "mine"}), "virtual")
    assert table is not None
    assert table.name == "mine"
    assert DEFAULT in builtin_tables()


def test_a_live_run_that_is_given_a_table_is_refused() -> None:
    with pytest.raises(Refusal, match="add --virtual"):
        cost_table(DEFAULT, "live")


BAD: list[tuple[object, str]] = [
    ([1], "not a cost table"),
    ("x", "not a cost table"),
    ({}, 'it lacks "costs": 1'),
    ({key: value for key, value in GOOD.items() if key != "prefill"}, "KeyError: 'prefill'"),
    (GOOD | {"colour": 3}, "colour"),
    (GOOD | {"two\nlines": 3}, "two lines"),
    (GOOD | {"jitter": 2}, "jitter 2 is a share below 1"),
    (GOOD | {"jitter": "much"}, "TypeError"),
    (GOOD | {"decode_rows": [2, 1]}, "decode_rows must ascend"),
    (GOOD | {"prefill": []}, "IndexError"),
    (GOOD | {"error": {"total": "little"}}, "not a cost table"),
    (GOOD | {"made_on": None}, "not a cost table"),
    (GOOD | {"launch_ns": None}, "not a cost table"),
]


@pytest.mark.parametrize(("plain", "why"), BAD, ids=[why for _, why in BAD])
def test_a_file_that_is_none_is_one_line_with_file_reason_and_remedy(tmp_path: Path, plain: object, why: str) -> None:
    path = written(tmp_path / "bad.json", plain)
    with pytest.raises(Refusal) as caught:
        cost_table(path, "virtual")
    said = str(caught.value)
    assert said.startswith(f"--costs {path}: ")
    assert why in said
    assert "seatrial calibrate --out" in said
    assert "\n" not in said


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), st.lists, max_leaves=5
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(GOOD)), ANY, max_size=2))
def test_no_value_in_a_file_makes_it_crash(tmp_path_factory: pytest.TempPathFactory, wrong: dict[str, Any]) -> None:
    path = written(tmp_path_factory.mktemp("costs") / "any.json", GOOD | wrong)
    said = ""
    try:
        cost_table(path, "virtual")
    except Refusal as refusal:
        said = str(refusal)
    assert "\n" not in said


def test_a_name_that_is_none_says_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=f"no table of this name; built-in tables are {DEFAULT}"):
        cost_table("cpu-defalt", "virtual")
    with pytest.raises(Refusal, match="no such file; make one"):
        cost_table(str(tmp_path / "gone.json"), "virtual")
    plain = tmp_path / "table"
    plain.write_text("{}")
    with pytest.raises(Refusal, match=r"must end in \.json"):
        cost_table(str(plain), "virtual")


def test_the_command_refuses_a_bad_table_before_anything_is_started(seatrial: Seatrial, tmp_path: Path) -> None:
    for words in (("run", "pr-cut-and-oom", "--costs", "gone.json"), ("plan", "clean", "--costs", DEFAULT)):
        done = seatrial(*words)
        assert done.returncode == 4
        assert done.stderr.startswith("seatrial: --costs")
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_run_is_timed_by_the_table_that_was_asked_for_and_its_report_names_it(
    seatrial: Seatrial, tmp_path: Path
) -> None:
    dear = {key: [[x, y * 20] for x, y in GOOD[key]] for key in ("prefill",)}
    dear |= {"decode_ns": [[ns * 20 for ns in row] for row in GOOD["decode_ns"]], "name": "dear"}
    scenario = tmp_path / "s.toml"
    scenario.write_text(
        'schema = 1\nname = "s"\nmeans = "x"\ndrive = "virtual"\n'
        'phases = { warmup = { completed = 5 }, baseline = "2s", trial = "40s", recovery = "1s" }\n'
        'load = [{ id = "chat", rate = "1/s", prompt_tokens = 30, output_tokens = 8 }]\n'
        'check = [{ that = "e2e.p50 < 1h", where = "all" }]\n'
    )
    took = []
    for more in ((), ("--costs", written(tmp_path / "dear.json", GOOD | dear))):
        done = seatrial("run", str(scenario), *more)
        assert done.returncode == 0, done.stdout + done.stderr
        verdict = json.loads((tmp_path / "runs" / "latest" / "verdict.json").read_text())
        said = next(judge for judge in verdict["judges"] if judge["name"].startswith("e2e.p50"))
        took.append(said["figures"]["value"])
    assert took[1] > 10 * took[0]
    latest = tmp_path / "runs" / "latest"
    for name in ("report.html", "summary.md", "junit.xml"):
        assert "cost table dear" in (latest / name).read_text(), name
    assert "cost table dear" in done.stdout
    assert json.loads((latest / "costs.json").read_text())["name"] == "dear"
