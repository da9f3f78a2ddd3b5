"""What a night is made of, and why it is not even begun."""

from pathlib import Path

import pytest

from harness.exits import Refusal
from harness.nightly.select import Job, select
from scenarios import library

GOOD = """
schema = 1
name = "{name}"
means = "x"
drive = "{drive}"
phases = {{ trial = "20s" }}
load = [{{ id = "chat", rate = "3/s" }}]
"""


def put(folder: Path, file: str, name: str, drive: str = "virtual", more: str = "") -> None:
    (folder / file).write_text(GOOD.format(name=name, drive=drive) + more)


def selected(folder: Path, *, only_virtual: bool = False) -> tuple[list[Job], list[str]]:
    return select(folder, folder / "runs", (), only_virtual=only_virtual)


def test_scenarios_come_in_order_of_their_file_names(tmp_path: Path) -> None:
    put(tmp_path, "b.toml", "first")
    put(tmp_path, "a.toml", "second")
    (tmp_path / "notes.md").write_text("no scenario")
    assert [job.scenario for job in selected(tmp_path)[0]] == ["second", "first"]


def test_only_virtual_leaves_the_others_out_by_name(tmp_path: Path) -> None:
    put(tmp_path, "a.toml", "live-one", "live")
    put(tmp_path, "b.toml", "virtual-one")
    jobs, skipped = selected(tmp_path, only_virtual=True)
    assert ([job.scenario for job in jobs], skipped) == (["virtual-one"], ["live-one"])


def test_a_folder_without_a_virtual_scenario_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "a.toml", "live-one", "live")
    with pytest.raises(Refusal, match="leave --only-virtual out"):
        selected(tmp_path, only_virtual=True)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    put(tmp_path, "a.toml", "good")
    put(tmp_path, "b.toml", "odd", more="colour = 3")
    (tmp_path / "c.toml").write_text("x = [")
    put(tmp_path, "d.toml", "never-decided", more='check = [{ that = "drift.ttft.p99 < 10%" }]')
    put(tmp_path, "e.toml", "good")
    put(tmp_path, "f.toml", "planted-mine")
    far = 'target = { kind = "url", url = "http://192.0.2.1:8000", model = "m" }\n'
    limits = 'limits = { requests = 9, tokens = 99, rate = "9/s", in_flight = 9, wall = "60m" }\n'
    put(tmp_path, "g.toml", "far", "live", far + limits)
    with pytest.raises(Refusal) as refused:
        selected(tmp_path)
    text = str(refused.value)
    assert "6 of 7" in text
    for words in ("colour", "c.toml:", "probe", "also the name of a.toml", 'begin with "planted-"', "--allow-host"):
        assert words in text, words


@pytest.mark.parametrize("given", ["missing", "empty", "file.toml"])
def test_a_folder_that_is_none_is_refused_with_the_cure(tmp_path: Path, given: str) -> None:
    (tmp_path / "empty").mkdir()
    put(tmp_path, "file.toml", "x")
    with pytest.raises(Refusal, match="scenarios"):
        selected(tmp_path / given)


def test_the_library_is_a_sound_night(tmp_path: Path) -> None:
    """What we ship could be run at night, but for what needs layers that are still planned or a server of yours."""
    for name in ("pr-cut-and-oom", "clean", "pool-oom"):
        (tmp_path / f"{name}.toml").write_text(library.find(name).read_text())
    assert [job.scenario for job in selected(tmp_path)[0]] == ["clean", "pool-oom", "pr-cut-and-oom"]


def test_a_scenario_with_many_problems_is_one_that_is_not_sound(tmp_path: Path) -> None:
    put(tmp_path, "a.toml", "good")
    (tmp_path / "b.toml").write_text("schema = 1")
    with pytest.raises(Refusal) as caught:
        selected(tmp_path)
    said = str(caught.value)
    assert said.startswith("nothing was started: 1 of 2 scenarios is invalid\n")
    assert said.count("nothing was started") == 1
    assert said.count("this key is required") == 4
