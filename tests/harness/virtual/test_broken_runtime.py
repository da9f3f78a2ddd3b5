"""An exception of the runtime on trial is a FAIL with its mechanism and a whole report; one of ours stays exit 3."""

import contextlib
import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.exits import guarded
from harness.options import Outcome, RunOptions
from harness.run import run
from runtime.core.errors import OutOfBlocks
from tests.planted.raising import raise_in

SCENARIO = """
schema = 1
name = "breaks"
means = "x"
seed = 5
drive = "virtual"
phases = { warmup = { completed = 4, max = "4s" }, baseline = "1s", trial = "3s", recovery = "1s", drain_max = "8s" }
target = { knobs = { kv_blocks = 36, token_budget = 64, expected_output = 0.0, preemption = "swap", swap_blocks = 64 } }
canary = { every = "1s" }
[[load]]
id = "users"
rate = "14/s"
prompt_tokens = [40, 80]
output_tokens = [60, 120]
shared_prefix = 0.6
[[fault]]
id = "blip"
do = "device.launch: delay 600ms"
when = { at = "1s", times = 1 }
expect = { victims = "all", recover = "1s" }
"""
FILES = ("report.html", "verdict.json", "junit.xml", "summary.md", "run.sqlite")


@dataclass(frozen=True)
class Plant:
    """A function of the runtime that raises from its `after`th call on; `names_request`: its locals name one."""

    module: str
    name: str
    after: int = 60
    names_request: bool = True

    def __str__(self) -> str:
        return self.name


PLANTS = (
    Plant("runtime.engine.eager", "bind"),
    Plant("runtime.scheduling.scheduler", "Scheduler.plan", names_request=False),
    Plant("runtime.scheduling.scheduler", "Scheduler.admit"),
    Plant("runtime.scheduling.scheduler", "Scheduler.publish"),
    Plant("runtime.engine.landing", "Landing.land"),
    Plant("runtime.guard.watchdog", "Watchdog.expired", names_request=False),
    Plant("runtime.server.admission", "Admission.admit", 10, names_request=False),
    Plant("runtime.server.session", "Session.push", 400),
    Plant("runtime.server.session", "Session.next", 900),
    Plant("runtime.memory.kv.swap", "SwapSpace.swap_out", 3),
    Plant("runtime.scheduling.preemption", "Preemption.landed", 3),
    Plant("runtime.memory.kv.prefix", "PrefixIndex.find", names_request=False),
    Plant("runtime.memory.kv.paged", "PagedPool.take"),
    Plant("runtime.core.ledger", "Ledger.settle", names_request=False),
    Plant("runtime.device.sim", "SimDevice._over"),
    Plant("runtime.device.hash_model", "HashModel.run"),
    Plant("runtime.engine.engine", "audit", 0, names_request=False),
    Plant("harness.virtual.world", "kv_usage", 3, names_request=False),
)


def broken(folder: Path, text: str = SCENARIO) -> Outcome:
    file = folder / "breaks.toml"
    file.write_text(text)
    return run(RunOptions(str(file), folder / "runs"), say=lambda line: None)


def judged(outcome: Outcome, name: str) -> dict[str, Any]:
    verdict = json.loads((outcome.run_dir / "verdict.json").read_text())
    found: dict[str, Any] = next(judge for judge in verdict["judges"] if judge["name"] == name)
    return found


@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_an_exception_anywhere_in_the_runtime_fails_alive_with_its_mechanism_and_a_report(
    plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_in(monkeypatch, plant.module, plant.name, AssertionError("planted here"), after=plant.after)
    outcome = broken(tmp_path)
    assert outcome.exit == 1
    alive = judged(outcome, "alive")
    assert alive["state"] == "FAIL"
    assert "exception in the runtime: AssertionError: planted here; in " in alive["summary"]
    assert plant.name in alive["summary"], "the innermost frame in the runtime is named"
    assert "step " in alive["summary"]
    if plant.names_request:
        assert alive["owner"].startswith(("users-", "canary-")), alive
    for name in FILES:
        assert (outcome.run_dir / name).stat().st_size > 0, name
    assert "planted here" in (outcome.run_dir / "report.html").read_text()
    with contextlib.closing(sqlite3.connect(outcome.run_dir / "run.sqlite")) as history:
        assert history.execute("SELECT count(*) FROM reply WHERE outcome = 'ok'").fetchone()[0] > 0
        assert history.execute("SELECT count(*) FROM event WHERE kind = 'exception'").fetchone()[0] >= 1


def test_the_runtime_without_the_plant_passes_the_same_scenario(tmp_path: Path) -> None:
    outcome = broken(tmp_path)
    assert (outcome.exit, judged(outcome, "alive")["state"]) == (0, "PASS")


def test_an_injected_error_that_the_runtime_lets_through_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_in(monkeypatch, "runtime.memory.kv.paged", "PagedPool.share", OutOfBlocks("not handled"))
    outcome = broken(tmp_path)
    assert outcome.exit == 1
    assert "OutOfBlocks: not handled; in PagedPool.share" in judged(outcome, "alive")["summary"]


def test_the_same_seed_breaks_at_the_same_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        with monkeypatch.context() as patch:
            raise_in(patch, "runtime.engine.landing", "Landing.land", ValueError("twice"), after=100)
            said.append(judged(broken(tmp_path / folder), "alive")["summary"])
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("harness.virtual.client", "Client.receive"),
        ("harness.virtual.load", "VirtualLoad.end"),
        ("harness.virtual.rows", "Rows.put"),
        ("faults.injector", "Faults.fire"),
        ("harness.virtual.answer_check", "AnswerCheck.check"),
    ],
)
def test_an_exception_of_ours_is_still_an_internal_error_of_seatrial(
    module: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    raise_in(monkeypatch, module, name, KeyError("ours"), after=1 if name == "Faults.fire" else 20)
    assert guarded(lambda: broken(tmp_path).exit, sys.stderr) == 3
    assert "internal error of seatrial, not of your server" in capsys.readouterr().err


def test_a_runtime_that_does_not_start_is_refused_as_a_live_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    raise_in(monkeypatch, "runtime.memory.kv.paged", "PagedPool.__init__", ValueError("no pool"), after=0)
    assert guarded(lambda: broken(tmp_path).exit, sys.stderr) == 4
    assert "the built-in runtime did not start: ValueError: no pool; in PagedPool.__init__" in capsys.readouterr().err


def test_every_open_client_hears_of_the_end_of_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_in(monkeypatch, "runtime.scheduling.scheduler", "Scheduler.plan", AssertionError("x"), after=200)
    outcome = broken(tmp_path)
    with contextlib.closing(sqlite3.connect(outcome.run_dir / "run.sqlite")) as history:
        (open_ones,) = history.execute(
            "SELECT count(*) FROM request WHERE sent_ns NOT NULL AND id NOT IN (SELECT request FROM reply)"
        ).fetchone()
        fatal = history.execute("SELECT count(*) FROM served WHERE outcome = 'fatal'").fetchone()[0]
    assert (open_ones, fatal > 0) == (0, True)
