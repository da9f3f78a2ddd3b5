"""A bug in any function that a skipped step does not run makes a virtual trial FAIL with fast-forward on.

Every bug begins at step 21 or at the 21st call. The functions that run in eager steps only: laying out (bind, slots_of,
claims), the device (run of the model and its parts, stamp, price), the plan of decode steps, and the landing.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.options import RunOptions
from harness.run import run
from harness.virtual.world import World
from runtime.core.work import Breach, Sampled
from runtime.device.accounted import AccountedModel
from runtime.device.costs import Priced
from runtime.device.hash_model import HashModel
from runtime.engine import eager
from runtime.engine.landing import Landing
from runtime.engine.open_requests import OpenRequests
from runtime.memory.kv import sequence_tags
from runtime.memory.kv.tags import TagPlane
from runtime.scheduling import batch
from runtime.scheduling.request import Request
from runtime.scheduling.scheduler import Scheduler
from tests.harness.virtual.test_virtual_runs import judges, small

PHASES = 'phases = { warmup = { completed = 3 }, baseline = "1s", trial = "3s", recovery = "1s", drain_max = "4s" }\n'
LOAD = """
canary = { every = "0.5s" }
load = [{ id = "chat", rate = "12/s", prompt_tokens = [20, 60], output_tokens = [30, 60] }]
"""
SINCE = 21

Bug = Callable[[pytest.MonkeyPatch], None]


def changed(owner: Any, name: str, change: Callable[..., Any]) -> Bug:
    """`change(answer, *arguments)` replaces what the function answers, from the 21st call on."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        function, calls = getattr(owner, name), count(1)

        def planted(*arguments: Any, **more: Any) -> Any:
            answer = function(*arguments, **more)
            return answer if next(calls) < SINCE else change(answer, *arguments)

        patch.setattr(owner, name, planted)

    return plant


def rotated(bound: Any, _: object, step: int, *more: object) -> Any:
    return replace(bound, work=replace(bound.work, slots=np.roll(bound.work.slots, 1))) if step >= SINCE else bound


def other_token(drawn: tuple[Sampled | None, ...], *_: object) -> tuple[Sampled | None, ...]:
    return tuple(None if one is None else Sampled(128 + 32 + (one.token - 128 - 32 + 1) % 95) for one in drawn)


def lost(answer: None, request: Request, *_: object) -> None:
    if request.generated > 1:
        request.tokens[-1] = 128 + 32 + (request.tokens[-1] - 128 - 32 + 1) % 95


def counted_twice(answer: None, table: Any, rows: Any, *_: object) -> None:
    table.sums[rows[0]] += np.uint64(1)


def another_step(answer: None, model: HashModel, work: Any, past: Any, steps: Any, said: Any) -> None:
    steps += np.uint64(3)


def told_wrong(patch: pytest.MonkeyPatch) -> None:
    tell, calls = OpenRequests.tell, count(1)

    def planted(self: OpenRequests, request: Request, sampled: Sampled) -> None:
        tell(self, request, sampled if next(calls) < SINCE else Sampled(128 + 65))

    patch.setattr(OpenRequests, "tell", planted)


def tokens_rotated(patch: pytest.MonkeyPatch) -> None:
    """Each row takes the token of the row before it."""
    land, calls = Landing.land, count(1)

    def planted(self: Landing, batch: Any, result: Any, took_ns: int) -> None:
        if next(calls) >= SINCE and len(batch.rows) > 1:
            batch = batch._replace(rows=(*batch.rows[1:], batch.rows[0]))
        land(self, batch, result, took_ns)

    patch.setattr(Landing, "land", planted)


def row_left_out(patch: pytest.MonkeyPatch) -> None:
    plan, calls = Scheduler.plan, count(1)

    def planted(self: Scheduler) -> Any:
        made = plan(self)
        if next(calls) % 9:
            return made
        return tuple(one._replace(rows=one.rows[: max(1, len(one.rows) - 1)]) for one in made)

    patch.setattr(Scheduler, "plan", planted)


BUGS: dict[str, tuple[Bug, str]] = {
    "batch.bind rotates slots": (changed(eager, "bind", rotated), "invariants"),
    "batch.slots_of is one slot off": (
        changed(batch, "slots_of", lambda found, *_: (found[0], found[1] ^ 1)),
        "invariants",
    ),
    "batch._claims gives a row the claims of another": (
        changed(batch, "_claims", lambda found, *_: (*found[:2], replace(found[2], sums=np.roll(found[2].sums, 1, 0)))),
        "invariants",
    ),
    "sequence_tags.claim counts a tag twice": (
        changed(sequence_tags, "claim", counted_twice),
        "invariants",
    ),
    "TagPlane.verify sees what is not there": (
        changed(TagPlane, "verify", lambda _, plane, work, *__: (Breach(work.request_ids[0], 0, 0, "content"),)),
        "invariants",
    ),
    "TagPlane.stamp writes one slot off": (
        changed(TagPlane, "stamp", lambda _, plane, work: plane.slots.__setitem__(work.slots[:1], np.uint64(7))),
        "invariants",
    ),
    "AccountedModel.run gives a row the token of another": (
        changed(AccountedModel, "run", lambda drawn, *_: (*drawn[1:], drawn[0])),
        "invariants",
    ),
    "HashModel.run leaves other states": (
        changed(HashModel, "run", lambda drawn, model, work: model.slots.__setitem__(work.slots[-1:], 5) or drawn),
        "invariants",
    ),
    "HashModel._past reads another slot": (changed(HashModel, "_past", lambda past, *_: past ^ np.uint64(2)), "tokens"),
    "HashModel._replace_generated changes a step": (
        changed(HashModel, "_replace_generated", another_step),
        "tokens",
    ),
    "HashModel._drawn draws another token": (changed(HashModel, "_drawn", other_token), "invariants"),
    "Priced.cost_ns charges more": (changed(Priced, "cost_ns", lambda cost_ns, *_: cost_ns + 1000), "invariants"),
    "Scheduler.plan now and then leaves a row out": (row_left_out, "invariants"),
    "Request.advance takes another token": (changed(Request, "advance", lost), "tokens"),
    "Landing.land gives a row the token of another": (tokens_rotated, "tokens"),
    "OpenRequests.tell tells another token": (told_wrong, "tokens"),
}
FAST = {"batch.bind rotates slots", "HashModel._drawn draws another token", "Priced.cost_ns charges more"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in BUGS])
def test_a_bug_that_skipped_steps_do_not_run_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, judge = BUGS[name]
    plant(monkeypatch)
    outcome = small(tmp_path, LOAD, PHASES)
    assert outcome.exit == 1
    found = judges(outcome)
    assert found[judge] == "FAIL", found


def test_the_same_trial_passes_without_a_bug_and_checks_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds: list[World] = []

    def kept(*arguments: Any, **options: Any) -> World:
        worlds.append(World(*arguments, **options))
        return worlds[-1]

    monkeypatch.setattr("harness.virtual.drive.World", kept)
    assert small(tmp_path, LOAD, PHASES).exit == 0
    fast_forward = worlds[0].fast_forward
    assert fast_forward is not None and fast_forward.checked > 20 and fast_forward.skipped == 0


@pytest.mark.slow
def test_the_rotation_is_found_in_the_clean_scenario_with_most_steps_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.virtual.drive.World", functools.partial(World, check_one_in=16))
    BUGS["batch.bind rotates slots"][0](monkeypatch)
    assert run(RunOptions("clean", tmp_path, virtual=True), say=lambda line: None).exit == 1
