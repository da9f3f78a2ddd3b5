from pathlib import Path

import pytest

from harness.cli.run_dirs import find
from harness.exits import Refusal


def made(runs: Path, *names: str) -> Path:
    for name in names:
        (runs / name).mkdir(parents=True)
        (runs / name / "plan.json").write_text("{}", encoding="utf-8")
    return runs


def test_a_path_wins(tmp_path: Path) -> None:
    assert find(str(tmp_path), tmp_path / "none") == tmp_path


def test_latest_follows_the_link(tmp_path: Path) -> None:
    runs = made(tmp_path, "2026-01-01_aaaa", "2026-01-02_bbbb")
    (runs / "latest").symlink_to("2026-01-01_aaaa")
    assert find("latest", runs).name == "2026-01-01_aaaa"


def test_latest_without_a_link_or_with_a_dead_one_is_the_newest_by_name(tmp_path: Path) -> None:
    runs = made(tmp_path, "2026-01-01_aaaa", "2026-01-02_bbbb")
    assert find("latest", runs).name == "2026-01-02_bbbb"
    (runs / "latest").symlink_to("gone")
    assert find("latest", runs).name == "2026-01-02_bbbb"


def test_the_end_of_a_run_id_is_enough_while_it_means_one(tmp_path: Path) -> None:
    runs = made(tmp_path, "2026-01-01_aa7f", "2026-01-02_bb7f")
    assert find("aa7f", runs).name == "2026-01-01_aa7f"
    with pytest.raises(Refusal, match="'7f' matches 2 runs"):
        find("7f", runs)


def test_a_run_that_is_not_there_is_refused_with_the_nearest(tmp_path: Path) -> None:
    runs = made(tmp_path, "2026-01-01_aaaa")
    with pytest.raises(Refusal, match=r"did you mean 2026-01-01_aaaa\?"):
        find("2026-01-01_aaab", runs)
