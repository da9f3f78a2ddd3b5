"""The history: what spools and typed calls become, and what survives a death, garbage and a full disk."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assertions.schema import HISTORY_VERSION, TABLES
from harness.record.canary import Answer, Reference
from harness.record.digest import digest, table_digests
from harness.record.recorder import HistoryFull, Recorder
from harness.record.rows import Value
from harness.record.store import open_history, write_rows
from harness.record.tail import FileShrank, read_tail

START = 1_000_000


def spool(directory: Path, name: str, *lines: dict[str, Any] | bytes) -> None:
    with (directory / name).open("ab") as file:
        for line in lines:
            file.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")


def read(directory: Path, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(directory / "run.sqlite")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def request(number: int, sent_ns: int | None = START + 5, **more: Any) -> dict[str, Any]:
    sizes = {
        "prompt_tokens": 9,
        "output_tokens_max": 4,
        "cancel_at": None,
        "grp": None,
        "worker": "0",
        "prompt_sha": "s",
    }
    stamps = {"intended_ns": START + 4, "sent_ns": sent_ns}
    return {
        "e": "request",
        "id": f"r{number}",
        "load": "chat",
        "kind": "load",
        "plan_row": number,
        **sizes,
        **stamps,
        **more,
    }


def canary_reply(request_id: str, tokens: list[str], logprobs: list[float] | None = None) -> dict[str, Any]:
    return {
        "e": "canary_reply",
        "request": request_id,
        "tokens": tokens,
        "text": "",
        "logprobs": logprobs,
        "margins": None,
    }


def test_stamps_become_run_time_and_lengths_and_nulls_stay(tmp_path: Path) -> None:
    spool(tmp_path, "requests.jsonl", request(1), request(2, None))
    spool(
        tmp_path,
        "requests.jsonl",
        {"e": "reply", "request": "r1", "head_ns": START + 7, "end_ns": START + 9, "gap_ns_sum": 3, "outcome": "ok"},
    )
    spool(
        tmp_path,
        "requests.jsonl",
        {"e": "hist", "t_ns": START + 10, "width_ns": 10, "load": "chat", "metric": "itl", "bucket": 5, "n": 2},
    )
    with Recorder(tmp_path, START) as recorder:
        assert recorder.pump() == 1 + 4  # with the fact of the start
    assert read(tmp_path, "SELECT id, intended_ns, sent_ns FROM request") == [("r1", 4, 5), ("r2", 4, None)]
    assert read(tmp_path, "SELECT request, head_ns, first_ns, end_ns, gap_ns_sum FROM reply") == [("r1", 7, None, 9, 3)]
    assert read(tmp_path, "SELECT t_ns, width_ns FROM hist") == [(10, 10)]


def test_a_half_last_line_waits_for_its_end(tmp_path: Path) -> None:
    whole = json.dumps(request(1)).encode() + b"\n"
    with Recorder(tmp_path, START) as recorder:
        spool(tmp_path, "requests.jsonl", whole[:20])
        assert recorder.pump() <= 1  # the start's own fact
        spool(tmp_path, "requests.jsonl", whole[20:])
        assert recorder.pump() == 1
    assert read(tmp_path, "SELECT count(*) FROM request") == [(1,)]


def test_lines_that_are_no_rows_are_counted_and_stop_nothing(tmp_path: Path) -> None:
    spool(
        tmp_path,
        "outcomes.jsonl",
        b"not json\n",
        b"[1]\n",
        b"\n",
        b'{"e":"novelty","t_ns":1}\n',
        b'{"e":"mark","name":"kv.evict","t_ns":1000001,"n":2,"colour":3}\n',
    )
    with Recorder(tmp_path, START):
        pass
    assert read(tmp_path, "SELECT * FROM mark") == [("kv.evict", 1, 2)]
    events = read(tmp_path, "SELECT kind, value, detail FROM event ORDER BY kind")
    assert events == [
        ("spool_garbage", 2.0, "outcomes.jsonl"),
        ("spool_surplus", 1.0, "outcomes.jsonl: mark.colour"),
        ("spool_unknown", 1.0, "outcomes.jsonl: novelty"),
    ]


ODD = ["self", "reply", "canary_reply", "fault", 1, 2**80, None, [1], {"a": 1}, "a\0b", "\ud800", 1.5]
ODD_LINES = st.dictionaries(st.sampled_from(["e", "t_ns", "id", "request", "tokens", "n"]), st.sampled_from(ODD))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=40), ODD_LINES.map(lambda line: json.dumps(line).encode()))))
def test_no_spool_makes_the_recorder_crash(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    directory = tmp_path_factory.mktemp("run")
    (directory / "requests.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    with Recorder(directory, START):
        pass


def test_the_last_state_of_a_fault_stands(tmp_path: Path) -> None:
    first = {
        "e": "fault",
        "id": "oom",
        "n": 0,
        "spec": {"do": "kv.take: oom"},
        "arm_ns": START + 1,
        "fired": 0,
        "state": "armed",
    }
    spool(
        tmp_path,
        "outcomes.jsonl",
        first,
        {**first, "n": 1},
        {**first, "fired": 3, "heal_ns": START + 9, "state": "healed"},
    )
    with Recorder(tmp_path, START):
        pass
    assert read(tmp_path, "SELECT n, fired, heal_ns, state FROM fault ORDER BY n") == [
        (0, 3, 9, "healed"),
        (1, 0, None, "armed"),
    ]
    assert read(tmp_path, "SELECT spec FROM fault WHERE n = 0") == [('{"do":"kv.take: oom"}',)]


def test_an_event_belongs_to_the_process_that_wrote_the_spool(tmp_path: Path) -> None:
    spool(tmp_path, "requests.jsonl", {"e": "event", "t_ns": START, "kind": "start", "value": 1})
    spool(tmp_path, "outcomes.jsonl", {"e": "event", "t_ns": START, "kind": "start", "value": 2})
    with Recorder(tmp_path, START):
        pass
    assert read(tmp_path, "SELECT proc, value FROM event ORDER BY value") == [("load", 1.0), ("server", 2.0)]


def test_self_lines_become_series_of_the_load(tmp_path: Path) -> None:
    line = {"e": "self", "t_ns": START + 1, "lateness_ms_p99": 1.5, "lateness_ms_max": None, "dropped": 0, "cpu": 0.1}
    spool(tmp_path, "requests.jsonl", line, {**line, "t_ns": START + 2, "dropped": 4})
    with Recorder(tmp_path, START):
        pass
    query = "SELECT t_ns, value FROM sample JOIN series ON series.id = series WHERE name = '%s' ORDER BY t_ns"
    assert read(tmp_path, query % "load.dropped") == [(1, 0.0), (2, 4.0)]
    assert read(tmp_path, query % "load.lateness_ms_p99") == [(1, 1.5), (2, 1.5)]
    assert read(tmp_path, query % "load.lateness_ms_max") == []


def test_typed_calls_write_what_the_harness_sees(tmp_path: Path) -> None:
    with Recorder(tmp_path, START) as recorder:
        recorder.meta("seed", "7")
        recorder.meta("seed", "8")
        recorder.phase("trial", 0, START + 10, None, None)
        recorder.phase("trial", 0, START + 10, START + 20, "done")
        recorder.event(START + 3, "harness", "hiccup", 0.5, "x")
        recorder.clock(START + 4, 99, 98, "harness", 0, 1)
        series = recorder.series("host.steal", "share", "gauge", "host", 10)
        assert recorder.series("host.steal", "", "", "", None) == series
        recorder.absent("host.steal", "no such column")
        recorder.sample(series, START + 5, 0.25)
        recorder.put("step", n=1, t_ns=START + 6, dur_ns=2, batch=3, tokens=4)
        recorder.put_many("mark", [("kv.evict", 7, 1), ("kv.evict", 8, 1)])
    assert read(tmp_path, "SELECT value FROM meta WHERE key = 'seed'") == [("8",)]
    assert read(tmp_path, "SELECT start_ns, end_ns, ended_by FROM phase") == [(10, 20, "done")]
    assert read(tmp_path, "SELECT t_ns, real_ns FROM clock") == [(4, 99)]
    assert read(tmp_path, "SELECT name, unit, absent FROM series") == [("host.steal", "share", "no such column")]
    assert read(tmp_path, "SELECT t_ns, value FROM sample") == [(5, 0.25)]
    assert read(tmp_path, "SELECT t_ns, dur_ns, graph FROM step") == [(6, 2, None)]
    assert read(tmp_path, "SELECT t_ns FROM mark") == [(7,), (8,)]


@pytest.mark.parametrize("number", [1, 332, 333, 334, 666, 1000])
def test_rows_that_come_together_are_all_written_in_their_order(tmp_path: Path, number: int) -> None:
    connection = open_history(tmp_path / "run.sqlite")
    rows: list[tuple[Value, ...]] = [(at % 14, at, at / 2) for at in range(number)]
    write_rows(connection, "sample", rows)
    assert connection.execute("SELECT * FROM sample ORDER BY rowid").fetchall() == rows
    connection.close()


def test_a_column_that_does_not_exist_is_our_mistake(tmp_path: Path) -> None:
    with Recorder(tmp_path, START) as recorder, pytest.raises(AssertionError, match="table step has no column colour"):
        recorder.put("step", n=1, colour=2)


def test_taking_up_a_dead_run_takes_each_line_once(tmp_path: Path) -> None:
    spool(tmp_path, "requests.jsonl", *(request(n) for n in range(5)))
    first = Recorder(tmp_path, START)
    first.pump()
    first._connection.close()  # died here
    spool(tmp_path, "requests.jsonl", *(request(n) for n in range(5, 9)))
    for _ in range(3):
        with Recorder(tmp_path, 77) as again:
            assert again.start_ns == START
    assert read(tmp_path, "SELECT id FROM request ORDER BY plan_row") == [(f"r{n}",) for n in range(9)]


def test_rows_and_offset_are_committed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool(tmp_path, "requests.jsonl", *(request(n) for n in range(5)))
    recorder = Recorder(tmp_path, START)
    recorder._connection.execute(
        "CREATE TRIGGER no BEFORE INSERT ON request WHEN NEW.plan_row = 3 BEGIN SELECT RAISE(ABORT, 'planted'); END"
    )
    with pytest.raises(sqlite3.IntegrityError):
        recorder.pump()
    recorder._connection.execute("DROP TRIGGER no")
    recorder.close()
    assert read(tmp_path, "SELECT count(*) FROM request") == [(5,)]


def test_a_full_disk_is_one_clear_error_and_what_was_written_stays(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, START)
    recorder.event(START, "harness", "before")
    recorder.pump()
    pages = recorder._connection.execute("PRAGMA page_count").fetchone()[0]
    recorder._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    spool(tmp_path, "requests.jsonl", *(request(n) for n in range(2000)))
    with (
        pytest.raises(HistoryFull, match="database or disk is full; 2000 rows of this batch are lost") as caught,
        recorder,
    ):
        recorder.pump()
    assert caught.value.rows_lost == 2000
    assert read(tmp_path, "SELECT kind FROM event") == [("before",)]
    with Recorder(tmp_path, START):  # with space again nothing is missing: the spool still has it
        pass
    assert read(tmp_path, "SELECT count(*) FROM request") == [(2000,)]


def test_a_spool_that_got_shorter_is_told_once_and_not_read_again(tmp_path: Path) -> None:
    spool(tmp_path, "requests.jsonl", request(1), request(2))
    with Recorder(tmp_path, START) as recorder:
        recorder.pump()
        (tmp_path / "requests.jsonl").write_bytes(b"{}\n")
        recorder.pump()
        recorder.pump()
    assert read(tmp_path, "SELECT count(*) FROM event WHERE kind = 'spool_shrank'") == [(1,)]
    with pytest.raises(FileShrank):
        read_tail(tmp_path / "requests.jsonl", 100)


def test_another_history_version_is_refused(tmp_path: Path) -> None:
    Recorder(tmp_path, START).close()
    connection = sqlite3.connect(tmp_path / "run.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ValueError, match=f"is history 99; this seatrial writes history {HISTORY_VERSION}"):
        Recorder(tmp_path, START)


def test_a_line_of_megabytes_does_not_stop_the_tail(tmp_path: Path) -> None:
    spool(tmp_path, "requests.jsonl", b"x" * (9 << 20), b"\n", request(1))
    with Recorder(tmp_path, START):
        pass
    assert read(tmp_path, "SELECT count(*) FROM request") == [(1,)]
    assert read(tmp_path, "SELECT count(*) FROM event WHERE kind = 'spool_garbage'") != [(0,)]


def test_a_canary_is_compared_with_the_reference_of_its_prompt(tmp_path: Path) -> None:
    known = Reference("exact", {"s": Answer(("a", "b"), (-0.5, -0.25), (1.0, 2.0))})
    spool(tmp_path, "requests.jsonl", request(1, kind="canary"), request(2, kind="canary", prompt_sha="unknown"))
    spool(tmp_path, "requests.jsonl", canary_reply("r1", ["a", "x"], [-0.5, -0.1]))
    with Recorder(tmp_path, START, known) as recorder:
        recorder.pump()
        spool(tmp_path, "requests.jsonl", canary_reply("r2", ["a"]))
    assert read(tmp_path, "SELECT request, reference, compared, parted_at, margin, state FROM canary ORDER BY 1") == [
        ("r1", "exact", 2, 1, 2.0, "corrupt"),
        ("r2", None, None, None, None, "unknown"),
    ]


def test_a_canary_whose_reply_came_after_the_recorder_died_is_compared_too(tmp_path: Path) -> None:
    known = Reference("exact", {"s": Answer(("a",))})
    spool(tmp_path, "requests.jsonl", request(1, kind="canary"))
    Recorder(tmp_path, START, known).close()
    spool(tmp_path, "requests.jsonl", canary_reply("r1", ["a"]))
    Recorder(tmp_path, START, known).close()
    assert read(tmp_path, "SELECT state FROM canary") == [("equal",)]


def test_the_digest_ignores_order_of_writing_meta_and_clock(tmp_path: Path) -> None:
    digests = []
    for name, order in (("one", (1, 2)), ("two", (2, 1)), ("three", (1, 3))):
        directory = tmp_path / name
        directory.mkdir()
        with Recorder(directory, 0) as recorder:
            recorder.meta("host", name)
            recorder.clock(1, len(digests), 0, "harness", 0, 0)
            recorder.put_many("mark", [("m", t_ns, 1) for t_ns in order])
        digests.append(digest(directory / "run.sqlite"))
    assert digests[0] == digests[1] != digests[2]
    differing = [
        table
        for table, part in table_digests(tmp_path / "one/run.sqlite").items()
        if part != table_digests(tmp_path / "three/run.sqlite")[table]
    ]
    assert differing == ["mark"]
    assert set(table_digests(tmp_path / "one/run.sqlite")) == set(TABLES) - {"meta", "clock"}


KILLED = """
import sys, itertools
from pathlib import Path
from harness.record.recorder import Recorder
recorder = Recorder(Path(sys.argv[1]), 0)
for n in itertools.count():
    recorder.event(n, "harness", "tick", n)
    recorder.pump()
    print(n, flush=True)
"""


@pytest.mark.slow
def test_a_kill_leaves_every_committed_row_readable(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, cwd=os.getcwd())
    assert child.stdout is not None
    said = [int(child.stdout.readline()) for _ in range(50)]
    child.kill()
    child.wait()
    child.stdout.close()
    assert read(tmp_path, "SELECT count(*) FROM event")[0][0] >= said[-1] + 1


def test_a_fault_that_is_armed_again_after_a_restart_keeps_a_row_for_each_arming(tmp_path: Path) -> None:
    row = {"e": "fault", "id": "stays", "n": 0, "spec": {"do": "kv.take: oom", "persist": True}, "seed": 7}
    spool(
        tmp_path,
        "outcomes.jsonl",
        {**row, "arm_ns": START + 1, "fired": 0, "state": "armed"},
        {**row, "arm_ns": START + 1, "fired": 3, "state": "fired"},
        {**row, "arm_ns": START + 50, "fired": 0, "state": "armed"},
        {**row, "arm_ns": START + 50, "fired": 2, "heal_ns": START + 90, "state": "healed"},
    )
    with Recorder(tmp_path, START):
        pass
    assert read(tmp_path, "SELECT arm_ns, fired, heal_ns, state FROM fault ORDER BY arm_ns") == [
        (1, 3, None, "fired"),
        (50, 2, 90, "healed"),
    ]
