"""The server's journal: whole lines, no silent loss, and the faults that a restart may arm again."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from faults import Faults, FaultSpec
from runtime.points import catalogue
from runtime.server import main
from runtime.server.journal import Journal, persisted
from runtime.server.ports import RuntimeHandle


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def spec(name: str, *, persist: bool, do: str = "kv.take: oom") -> FaultSpec:
    return FaultSpec.from_json({"id": name, "n": 0, "do": do, "persist": persist})


def test_a_line_is_on_its_way_when_the_call_returns(tmp_path: Path) -> None:
    """Read through another descriptor before any flush or close, as after kill -9."""
    outcomes = Journal(str(tmp_path / "o"))
    outcomes.event(5, "start", 1.0, "x")
    assert lines(tmp_path / "o") == [{"e": "event", "t_ns": 5, "kind": "start", "value": 1.0, "detail": "x"}]
    outcomes.close()


def test_two_writers_of_one_file_keep_lines_whole(tmp_path: Path) -> None:
    writers = [Journal(str(tmp_path / "o")) for _ in range(2)]
    for n in range(200):
        writers[n % 2].event(n, "x" * (n % 7), None, "y" * n)
    assert [row["t_ns"] for row in lines(tmp_path / "o")] == list(range(200))
    for writer in writers:
        writer.close()


def test_a_full_disk_is_counted_and_told_when_there_is_room_again(tmp_path: Path) -> None:
    outcomes = Journal("/dev/full")
    for t_ns in range(3):
        outcomes.event(t_ns, "x")
    assert outcomes.lost >= 3
    lost = outcomes.lost
    fd = os.open(tmp_path / "o", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    assert outcomes._file is not None
    os.dup2(fd, outcomes._file)
    os.close(fd)
    outcomes.event(9, "y")
    assert [(row["kind"], row["value"]) for row in lines(tmp_path / "o")] == [("outcomes_lost", lost), ("y", None)]
    assert outcomes.lost == 0
    outcomes.close()


def test_a_fire_that_cannot_be_written_makes_its_fault_invalid() -> None:
    outcomes = Journal("/dev/full")
    faults = Faults(catalogue(), lambda: 0, outcomes.fire, outcomes.fault)
    faults.arm([spec("f", persist=False)])
    assert [state.state for state in faults.states()] == ["invalid"]
    outcomes.close()


def test_no_path_keeps_no_record() -> None:
    outcomes = Journal(None)
    outcomes.event(1, "x")
    outcomes.write("event", {})
    assert outcomes.lost == 0


def test_requests_are_named_as_the_client_did() -> None:
    outcomes = Journal(None)
    outcomes.add_name("server-1-7", "r7")
    assert [outcomes.name(each) for each in ("server-1-7", "unheard", None)] == ["r7", "unheard", None]


@pytest.mark.parametrize("ended_by", ["kill", "shutdown", "harness", "harness and shutdown"])
def test_only_persistent_faults_that_nobody_healed_are_armed_again(tmp_path: Path, ended_by: str) -> None:
    outcomes = Journal(str(tmp_path / "o"))
    faults = Faults(catalogue(), lambda: 0, outcomes.fire, outcomes.fault)
    faults.arm([spec("stays", persist=True), spec("goes", persist=False)])
    if "harness" in ended_by:
        faults.heal_all("harness")
    if "shutdown" in ended_by:
        faults.clean()
    outcomes.close()
    with (tmp_path / "o").open("a") as file:
        file.write('{"e":"fault","id":"torn')
    expected = [] if "harness" in ended_by else ["stays"]
    assert [each.id for each in persisted(str(tmp_path / "o"))] == expected


def test_after_a_restart_what_breaks_the_reading_of_weights_is_armed_before_they_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = Journal(str(tmp_path / "o"))
    faults = Faults(catalogue(), lambda: 0, outcomes.fire, outcomes.fault)
    faults.arm([spec("late", persist=True), spec("early", persist=True, do="weights.read: error")])
    outcomes.close()
    seen: list[str] = []

    def build(engine: object, evidence: object, armed: Sequence[FaultSpec]) -> RuntimeHandle:
        seen.extend(each.id for each in armed)
        raise ValueError("a shard gave no bytes")

    argv = ["--outcomes", str(tmp_path / "o"), "--restarts", "1"]
    assert main.main(argv, build) == 4
    assert seen == ["early"]
    assert capsys.readouterr().err == "seatrial server: a shard gave no bytes\n"
