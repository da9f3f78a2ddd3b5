"""trials.sqlite keeps every trial, whatever happens to the night."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from assertions.verdict import State
from harness.exits import Refusal
from harness.nightly.store import Store
from tests.harness.nightly.fakes import HOST, TONIGHT, nights, said, trial


def test_a_trial_comes_back_as_it_was(tmp_path: Path) -> None:
    judges = said("a", State.FAIL, figures={"value": 0.1}), said("b")
    kept = trial(TONIGHT, State.FAIL, *judges, because="x")
    with Store.open(tmp_path / "deep" / "trials.sqlite") as store:
        store.add(kept)
        assert store.trials("chat", HOST, until=TONIGHT, nights_max=5) == (kept,)


def test_every_number_is_a_scalar_with_its_unit(tmp_path: Path) -> None:
    judge = said("leak.kv_live < 3/h", figures={"per_hour": 2.0, "blocks": 8.0})
    latency = said("latency", figures={"trial.ttft_p99_s": 0.5})
    with Store.open(tmp_path / "trials.sqlite") as store:
        store.add(trial(TONIGHT, State.PASS, judge, latency, wall_s=3.0))
        assert store._connection.execute("SELECT metric, value, unit FROM scalar WHERE trial = 1").fetchall() == [
            ("wall_s", 3.0, "s"),
            ("leak.kv_live < 3/h: per_hour", 2.0, "/h"),
            ("leak.kv_live < 3/h: blocks", 8.0, None),
            ("latency: trial.ttft_p99_s", 0.5, "s"),
        ]


def test_the_same_night_again_adds(tmp_path: Path) -> None:
    for _ in range(2):
        with Store.open(tmp_path / "trials.sqlite") as store:
            store.add(trial())
    with Store.open(tmp_path / "trials.sqlite") as store:
        assert len(store.trials("chat", HOST, until=TONIGHT, nights_max=5)) == 2


def test_nights_of_another_machine_or_later_are_not_compared(tmp_path: Path) -> None:
    with Store.open(tmp_path / "trials.sqlite") as store:
        for each in (trial(host="other"), trial("2026-11-29"), trial(scenario="flood"), trial()):
            store.add(each)
        assert store.trials("chat", HOST, until=TONIGHT, nights_max=5) == (trial(),)


def test_only_so_many_nights_are_read_and_oldest_first(tmp_path: Path) -> None:
    with Store.open(tmp_path / "trials.sqlite") as store:
        for each in reversed(nights(*[State.PASS] * 5)):
            store.add(each)
        found = store.trials("chat", HOST, until=TONIGHT, nights_max=2)
    assert [each.night for each in found] == ["2026-11-27", TONIGHT]


def test_the_night_before_names_its_scenarios_without_controls(tmp_path: Path) -> None:
    with Store.open(tmp_path / "trials.sqlite") as store:
        for each in (
            trial("2026-11-20", scenario="older"),
            trial("2026-11-26", scenario="flood"),
            trial("2026-11-27", scenario="planted-leak", control=True),
            trial(),
        ):
            store.add(each)
        assert store.night_before(HOST, TONIGHT) == ("flood",)


def test_a_kill_loses_nothing_that_was_added(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    killed = (
        "import os, signal; from pathlib import Path; from harness.nightly.store import Store;"
        "from tests.harness.nightly.fakes import trial;"
        f"store = Store.open(Path({str(path)!r})); store.add(trial()); os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", killed], cwd=root, env={**os.environ}).returncode == -9
    with Store.open(path) as store:
        assert store.trials("chat", HOST, until=TONIGHT, nights_max=5) == (trial(),)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    path.write_text("no database at all, and long enough to be looked at")
    with pytest.raises(Refusal, match="not a database"):
        Store.open(path)


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    with Store.open(path):
        pass
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(Refusal, match="version 9"):
        Store.open(path)


def test_a_strangers_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    with pytest.raises(Refusal, match="version 0"):
        Store.open(path)
