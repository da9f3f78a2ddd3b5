"""A runtime in which nobody moves fails the run within a bound, and the verdict says who waits for what."""

import contextlib
import json
import os
import signal
import sqlite3
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.options import Outcome, RunOptions
from harness.run import run
from harness.virtual import turns
from runtime.core.ledger import Ledger
from runtime.core.messages import Mailbox, Submit
from runtime.core.ports import Ticket
from runtime.core.work import Copy
from runtime.device.launcher import Job, Launcher
from runtime.engine import Engine
from runtime.scheduling import scheduler
from runtime.scheduling.batch import Batch
from runtime.scheduling.scheduler import Scheduler

Patch = pytest.MonkeyPatch
SCENARIO = """
schema = 1
name = "stands"
means = "x"
seed = 5
drive = "virtual"
phases = { warmup = { completed = 4, max = "30s" }, baseline = "1s", trial = "40s", recovery = "1s", drain_max = "8s" }
target = { knobs = { kv_blocks = 36, token_budget = 64, expected_output = 0.0, preemption = "swap", swap_blocks = 64 } }
canary = { every = "2s" }
[[load]]
id = "users"
arrivals = "closed"
users = 12
rate = "14/s"
prompt_tokens = [40, 80]
output_tokens = [60, 120]
"""
HANGS = """
[[fault]]
id = "hang"
do = "device.launch: hang 25s"
when = { at = "2s" }
expect = { outcomes = ["ok", "timeout", "refused"], victims = "all", recover = "10s" }
"""


def lost_wake(patch: Patch) -> None:
    offer, told = Mailbox.offer, [0]

    def planted(mailbox: Mailbox, submit: Submit) -> bool:
        told[0] += 1
        if told[0] < 30:
            return offer(mailbox, submit)
        mailbox._mail.append(submit)
        return True

    patch.setattr(Mailbox, "offer", planted)


def lost_copy_completion(patch: Patch) -> None:
    finish = Launcher._finish

    def planted(device: Launcher, job: Job) -> None:
        if not isinstance(job.ticket.work, Copy) or job.ticket.seq < 200:
            finish(device, job)

    patch.setattr(Launcher, "_finish", planted)


def block_never_released(patch: Patch) -> None:
    settle = Ledger.settle

    def planted(ledger: Ledger) -> list[Ticket]:
        kept = [entry for entry in ledger._limbo if entry.after.seq > 200]
        ledger._limbo = [entry for entry in ledger._limbo if entry.after.seq <= 200]
        done = settle(ledger)
        ledger._limbo += kept
        return done

    patch.setattr(Ledger, "settle", planted)


def never_landed(patch: Patch) -> None:
    settle = Ledger.settle

    def planted(ledger: Ledger) -> list[Ticket]:
        return [ticket for ticket in settle(ledger) if not isinstance(ticket.work, Copy) or ticket.seq < 200]

    patch.setattr(Ledger, "settle", planted)


def head_never_admitted(patch: Patch) -> None:
    begin, stuck = Scheduler._begin, [0]

    def planted(made: Scheduler, request: Any, budget: int, rows: list[Any]) -> int:
        stuck[0] += request.submit.request_id == "users-40"
        return 0 if stuck[0] else begin(made, request, budget, rows)

    patch.setattr(Scheduler, "_begin", planted)
    patch.setattr(Scheduler, "_reject_stuck_head", lambda made: False)


def step_that_wakes_itself(patch: Patch) -> None:
    step, steps = Engine.step, [0]

    def planted(engine: Engine) -> None:
        steps[0] += 1
        step(engine)
        if steps[0] > 300:
            engine.mailbox.wake()

    patch.setattr(Engine, "step", planted)


def step_that_loops(patch: Patch, before: Callable[[], None] = lambda: None) -> None:
    def loop(made: Scheduler) -> tuple[Batch, ...]:
        plans[0] += 1
        if plans[0] == 300:
            before()
            while True:
                pass
        return plan(made)

    plan, plans = Scheduler.plan, [0]
    code = loop.__code__.replace(co_name="plan", co_qualname="Scheduler.plan")
    patch.setattr(Scheduler, "plan", types.FunctionType(code, vars(scheduler), "plan", None, loop.__closure__))


def lock_taken_twice(patch: Patch, before: Callable[[], None]) -> None:
    plan, plans, lock = Scheduler.plan, [0], threading.Lock()

    def planted(made: Scheduler) -> tuple[Batch, ...]:
        plans[0] += 1
        if plans[0] == 300:
            before()
            lock.acquire()
            lock.acquire()
        return plan(made)

    patch.setattr(Scheduler, "plan", planted)


def stands(folder: Path, text: str = SCENARIO) -> Outcome:
    file = folder / "stands.toml"
    file.write_text(text)
    return run(RunOptions(str(file), folder / "runs"), say=lambda line: None)


def alive(outcome: Outcome) -> dict[str, Any]:
    verdict = json.loads((outcome.run_dir / "verdict.json").read_text())
    found: dict[str, Any] = next(judge for judge in verdict["judges"] if judge["name"] == "alive")
    return found


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (lost_wake, "the engine does not read its mail; "),
        (lost_copy_completion, "is lost: the device has it no more; "),
        (block_never_released, "were never released: ticket "),
        (never_landed, " ago and has not landed; "),
        (head_never_admitted, "users-40, the head of the queue, fits and is not admitted; "),
        (step_that_wakes_itself, "turns at "),
    ],
)
def test_each_standstill_is_named_with_who_waits_for_what(
    plant: Callable[[Patch], None], said: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    # With several users the launches of one would wake the engine for the mail of another.
    outcome = stands(tmp_path, SCENARIO.replace("users = 12", "users = 1") if plant is lost_wake else SCENARIO)
    assert outcome.exit == 1
    judged = alive(outcome)
    assert judged["state"] == "FAIL"
    assert judged["summary"].startswith("standstill: ")
    assert said in judged["summary"], judged["summary"]
    assert " -> " in judged["summary"], "the graph of who waits for what"
    assert judged["owner"].startswith(("users-", "canary-")), judged


def test_a_step_that_loops_ends_by_its_cpu_time_with_its_place(tmp_path: Path, monkeypatch: Patch) -> None:
    step_that_loops(monkeypatch)
    monkeypatch.setattr(turns, "LOOK_S", 0.3)
    outcome = stands(tmp_path)
    assert outcome.exit == 1
    summary = alive(outcome)["summary"]
    assert "standstill: no turn ended within " in summary
    assert "of CPU time: in Scheduler.plan (runtime/scheduling/scheduler.py:" in summary
    assert "; step " in summary


@pytest.mark.parametrize("plant", [step_that_loops, lock_taken_twice])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_ends_a_step_that_does_not_come_back_and_what_was_recorded_is_judged(
    plant: Callable[[Patch, Callable[[], None]], None], number: signal.Signals, tmp_path: Path, monkeypatch: Patch
) -> None:
    plant(monkeypatch, lambda: os.kill(os.getpid(), number))
    monkeypatch.setattr(turns, "SIGNALLED_S", 0.1)
    outcome = stands(tmp_path)
    assert outcome.exit == 130
    judged = alive(outcome)
    assert judged["state"] == "UNKNOWN"
    with contextlib.closing(sqlite3.connect(outcome.run_dir / "run.sqlite")) as history:
        (why,) = history.execute("SELECT detail FROM event WHERE kind = 'ended_by_signal'").fetchone()
    assert why.startswith(f"{number.name} received; no turn ended within 0.1 s: in "), why
    for name in ("report.html", "verdict.json", "junit.xml", "summary.md"):
        assert (outcome.run_dir / name).stat().st_size > 0


@pytest.mark.parametrize("more", ["", HANGS], ids=["clean", "a hang of 25 s"])
def test_a_runtime_that_moves_or_waits_for_a_fault_does_not_stand_still(more: str, tmp_path: Path) -> None:
    assert alive(stands(tmp_path, SCENARIO + more))["state"] == "PASS"
