"""Reading what a killed run left behind."""

import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from assertions import schema
from assertions.history import History
from assertions.judge import judge
from assertions.verdict import State
from tests.assertions.recorded import Recorded, S, healthy


def test_rows_that_only_the_write_ahead_log_holds_are_read(tmp_path: Path) -> None:
    run, path = healthy(), tmp_path / "run.sqlite"
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    schema.create(writer)
    run.write(writer)
    killed = tmp_path / "killed"
    killed.mkdir()
    for file in tmp_path.glob("run.sqlite*"):  # as kill -9 leaves them: nobody closed the database
        shutil.copy(file, killed)
    writer.close()
    with History.open(killed / "run.sqlite") as history:
        assert len(history.requests) == len(run.tables["request"])
        assert judge(history, run.plan_view()).state is State.PASS


def test_a_history_is_opened_read_only(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    writer = sqlite3.connect(path)
    schema.create(writer)
    writer.close()
    before = path.read_bytes()
    with History.open(path) as history, pytest.raises(sqlite3.OperationalError, match="readonly"):
        history._connection.execute("DELETE FROM meta")
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.sqlite"]


def test_a_missing_file_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"give the run\.sqlite of a run directory"):
        History.open(tmp_path / "run.sqlite")


def test_a_file_that_is_no_database_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(b"not a database, but long enough to be taken for one" * 40)
    with pytest.raises(sqlite3.DatabaseError):
        History.open(path)


def test_a_database_without_tables_is_an_empty_run(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    sqlite3.connect(path).execute("PRAGMA user_version = 1")
    with History.open(path) as history:
        assert len(history.requests) == 0
        assert judge(history, Recorded().plan_view()).state is State.UNKNOWN


def test_null_is_not_seen_and_never_zero() -> None:
    run = Recorded()
    run.request("r0", S)
    run.find("reply", request="r0")["first_ns"] = None
    run.add("request", id="r1", load="chat", kind="load", intended_ns=2 * S)
    run.add("request", id="r2", load="chat", kind="load", intended_ns=3 * S, sent_ns=3 * S)
    requests = run.history().requests
    assert np.isnan(requests.first_ns[0])
    assert [requests.outcome[row] for row in range(3)] == ["ok", "dropped", "unfinished"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda phases: phases.clear(), "no phase was recorded"),
        (lambda phases: phases[-1].update(end_ns=None, ended_by=None), "drain never ended: the harness died"),
        (lambda phases: phases.pop(), "the last phase recorded is recovery, not drain"),
        (lambda phases: phases[2].update(ended_by="abort"), "trial was ended by abort"),
    ],
)
def test_a_run_that_did_not_come_to_its_end_says_how(change: object, words: str) -> None:
    run = healthy()
    change(run.tables["phase"])  # type: ignore[operator]
    assert run.history().cut_short == words


def test_the_last_row_of_a_fault_wins() -> None:
    run = healthy()
    run.add(
        "fault", id="oom", n=0, arm_ns=60 * S, first_ns=61 * S, heal_ns=63 * S, fired=1, fired_min=1, state="healed"
    )
    assert [fault.heal_ns for fault in run.history().faults] == [63 * S]
