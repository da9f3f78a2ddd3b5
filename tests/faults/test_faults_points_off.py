import sqlite3
from pathlib import Path

import pytest

from benchmarks import points_off

QUICK = ["--rounds", "2", "--loops", "20"]


def test_the_benchmark_prints_every_way_and_the_share_of_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert points_off.main([*QUICK, "--limit-ns", "1e9", "--step-us", "4000"]) == 0
    printed = capsys.readouterr().out
    assert all(way.name in printed for way in points_off.WAYS)
    assert "step: 4000 us, as given" in printed
    assert "%" in printed


def test_the_benchmark_fails_over_its_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert points_off.main([*QUICK, "--limit-ns=-1e9"]) == 1
    assert "OVER the limit" in capsys.readouterr().out


def test_the_benchmark_takes_the_step_from_a_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.sqlite"
    history = sqlite3.connect(path)
    history.execute("CREATE TABLE step (n, t_ns, dur_ns, batch, tokens, graph, fallback, detail)")
    history.executemany("INSERT INTO step (dur_ns) VALUES (?)", [(1_000_000,), (3_000_000,), (2_000_000,), (None,)])
    history.commit()
    history.close()
    points_off.main([*QUICK, "--history", str(path)])
    assert f"step: 2000 us, median of 3 steps in {path}" in capsys.readouterr().out
