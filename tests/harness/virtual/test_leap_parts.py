"""What a leap asks before it begins, and what must look at it while it is under way."""

import functools
import sqlite3
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from harness.record.digest import table_digests
from harness.virtual.target import VirtualAdmin
from harness.virtual.world import World
from runtime.core.ports import Ticket
from runtime.leap.leap import Leap
from runtime.leap.reach import blocks_last
from runtime.scheduling.batch import Batch
from tests.harness.virtual.test_virtual_runs import small

PHASES = 'phases = { warmup = { completed = 2 }, baseline = "1s", trial = "4s", recovery = "1s", drain_max = "5s" }\n'
IMPATIENT = """
[[load]]
id = "long"
rate = "4/s"
prompt_tokens = [20, 60]
output_tokens = [100, 300]
timeout = "0.1s"
stream = 0.7
"""

sizes = st.sampled_from([1, 4, 16])


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3)), min_size=1, max_size=6), sizes, st.integers(0, 12))
def test_there_are_blocks_for_as_many_steps_as_a_walk_finds(requests, size, free):
    spare = [(-(-n // size) + more) * size - n for n, more in requests]
    held, walked, room = [-(-n // size) + more for n, more in requests], 0, free
    while walked < 30:
        short = [at for at, (n, _) in enumerate(requests) if n + walked >= held[at] * size]
        if len(short) > free:
            break
        free -= len(short)
        for at in short:
            held[at] += 1
        walked += 1
    assert blocks_last(spare, 30, size, room) == walked


def test_who_hangs_up_within_a_leap_has_the_tokens_of_that_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaping = small(tmp_path, IMPATIENT, PHASES)
    monkeypatch.setattr("harness.virtual.drive.World", functools.partial(World, leaps=False))
    stepping = small(tmp_path, IMPATIENT, PHASES)
    tables = [table_digests(outcome.run_dir / "run.sqlite") for outcome in (leaping, stepping)]
    assert tables[0] == tables[1]


def test_a_leap_compares_every_block_before_it_and_leaves_damage_to_a_real_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, seen, damaged_at = Leap.__call__, [], []

    def damaged(leap: Leap, batch: Batch, step: int) -> Ticket | None:
        first = batch.rows[0].request
        if len(seen) >= 30 and not damaged_at and first.computed > first.line.block_tokens and not first.doubted:
            damaged_at.append(len(seen))
            leap._pool.plane._sums[first.blocks[0]] += 1
        ticket = begin(leap, batch, step)
        seen.append(ticket is not None)
        return ticket

    monkeypatch.setattr(Leap, "__call__", damaged)
    outcome = small(tmp_path, IMPATIENT, PHASES)
    assert outcome.exit == 1
    (at,) = damaged_at
    assert seen[at - 1 : at + 2] == [True, False, True]


def test_an_audit_that_finds_damage_ends_its_request_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def built(*args: Any, **options: Any) -> World:
        world = World(*args, **options)

        def damage() -> None:
            running = [one for one in world.engine._scheduler.running if one.computed > one.line.block_tokens]
            if world.leap._going is None or not running:
                world.time.at(world.time.now_ns() + 3_000_000, damage)
                return
            found.append(running[0].id)
            world.engine._pool.plane.slots[running[0].blocks[0] * running[0].line.block_tokens] += 1
            VirtualAdmin(world).audit("live")

        world.time.at(2_500_000_000, damage)
        return world

    monkeypatch.setattr("harness.virtual.drive.World", built)
    outcome = small(tmp_path, IMPATIENT.replace('"0.1s"', '"60s"'), PHASES)
    assert found and outcome.exit == 1
    with sqlite3.connect(outcome.run_dir / "run.sqlite") as history:
        (code,) = history.execute("SELECT code FROM served WHERE request = ?", found).fetchone()
    assert code == "kv_corruption"
