"""Virtual launches take memory as the torch ones do: same bytes, same points; and nothing while no fault is armed."""

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import invariant, rule

from runtime.contract.step import ModelShape
from runtime.contract.violation import ContractViolation
from runtime.core.work import Sampled, Work
from runtime.device import accounted
from runtime.device.accounted import AccountedModel, LaunchMemory
from runtime.device.device_audit import device_rows
from runtime.memory.assembly import STEPS_MAX
from runtime.memory.spans.failures import OutOfMemory
from runtime.memory.spans.span import PoolKind
from runtime.memory.spans.upstream import Reserve
from tests.runtime.memory.spans.bench import MIB, Bench
from tests.runtime.models.test_attention import decode_work
from tests.steps import CountedMachine, machine_settings

LAYERS = LaunchMemory().layers
SHAPE = ModelShape(block_tokens=4, tokens_max=64, samples_max=16)


class Echo:
    """Says 7, and counts."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        self.runs += 1
        return tuple(Sampled(7) for _ in range(work.rows))


def work(step: int, rows: int = 2, context: int = 5) -> Work:
    blocks = -(-context // 4)
    tables = [[row * blocks + index for index in range(blocks)] for row in range(rows)]
    return replace(decode_work(tables, [context] * rows), step=step)


class World:
    def __init__(self, room: int = 64 * MIB) -> None:
        self.bench = Bench()
        self.echo = Echo()
        self.model = AccountedModel(self.echo, self.bench.env, Reserve(room), SHAPE)

    @property
    def owners(self) -> set[str]:
        return {request.owner for _, request in self.model.held()}


def test_while_nothing_is_armed_a_launch_takes_nothing():
    world = World()
    assert world.model.run(work(1)) == (Sampled(7), Sampled(7))
    assert world.model.pools[PoolKind.ACTIVATION].usage().allocs == 0


@pytest.mark.parametrize("nth", range(4 + LAYERS))
def test_each_span_that_a_launch_takes_can_be_refused_and_the_repeat_is_whole(nth: int):
    world = World()
    world.bench.arm("memory.alloc: oom", skip=nth)
    with pytest.raises(OutOfMemory):
        world.model.run(work(1))
    assert not list(world.model.held()), "what it had taken is given back"
    assert world.echo.runs == 0
    assert (
        world.bench.env.counters.total["memory.out_of_memory"] == world.bench.env.counters.total["memory.reject"] == 1
    )
    world.bench.faults.clean()
    assert world.model.run(work(2)) == (Sampled(7), Sampled(7))


def test_a_launch_crosses_the_points_as_often_as_the_torch_one():
    """Four spans, and scratch once a layer: the next crossing is of the next launch, and its ladder helps it."""
    world = World()
    world.bench.arm("memory.alloc: oom", skip=4 + LAYERS, times=1)
    world.model.run(work(1))
    assert not world.bench.fires
    world.model.run(work(2))
    assert len(world.bench.fires) == 1
    assert world.model.pools[PoolKind.ACTIVATION].usage().fallbacks == 1


def test_a_lost_reset_is_a_leak_with_the_name_of_its_step_until_room_is_short():
    world = World()
    world.bench.arm("memory.reset: drop", times=1)
    world.model.run(work(5))
    world.bench.faults.clean()
    world.model.run(work(6))
    assert world.owners == {"step-5"}
    rows = device_rows(world.bench.env, world.model.held(), "drain")
    leaked = [row for row in rows if row.kind == "live" and row.value != row.expected]
    assert [(row.name, row.owner, row.kind) for row in leaked] == [
        ("activation_spans.live", "", "live"),
        ("activation_spans", "step-5", "live"),
    ]
    assert [row.value for row in leaked] == [4, 4]
    assert not [row for row in device_rows(world.bench.env, world.model.held(), "live") if row.kind == "live"]


def test_a_long_run_of_distinct_shapes_remembers_few_and_checks_each(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(accounted, "_CHECKED_MAX", 16)
    world = World()
    checked: list[str] = []
    cross = world.model.contract.binder.cross

    def noted(contract: Any, tensors: Any, *more: Any, **others: Any) -> Any:
        checked.append(contract.graph)
        return cross(contract, tensors, *more, **others)

    monkeypatch.setattr(world.model.contract.binder, "cross", noted)
    world.model.run(work(0))
    assert checked == ["inputs", "decode", "layer", "head", "sample", "sample"]
    world.model.run(work(1))
    assert len(checked) == 6, "what has passed is not checked again"
    for step, context in enumerate(range(9, 409, 4)):
        world.model.run(work(2 + step, context=context))
        assert len(world.model._checked) <= 16
    assert checked.count("decode") == 101, "each new width is checked"
    world.model.run(work(200))
    assert checked.count("decode") == 102, "what was forgotten is checked again"
    for step in (201, 202):
        with pytest.raises(ContractViolation, match="samples"):
            world.model.run(work(step, rows=17))


def test_its_bytes_are_those_of_the_embedded_model():
    from runtime.models.buffers import parts_of, sizes_of
    from runtime.models.config import read_config
    from runtime.models.default import default_model

    config = read_config(default_model())
    assert LaunchMemory().layers == config.layers
    for tokens, sampled in ((1, 1), (16, 3), (100, 40)):
        assert LaunchMemory().spans(tokens, sampled) == sizes_of(parts_of(config), tokens, sampled)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 16), st.integers(1, 64))
def test_the_largest_launch_fits_into_pools_of_its_sizes(rows: int, context: int):
    world = World()
    world.bench.arm("memory.reset: drop", skip=10_000)
    assert len(world.model.run(work(1, rows, context))) == rows
    assert world.bench.env.counters.total["memory.out_of_memory"] == 0


class Lost(CountedMachine):
    """Resets are lost at any time: launches go on, and only the lost steps are held."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.step = 0
        self.lost: list[str] = []

    @rule()
    def launch(self) -> None:
        self.step += 1
        armed = self.world.bench.faults.armed
        assert self.world.model.run(work(self.step)) == (Sampled(7), Sampled(7))
        if armed:
            self.lost.append(f"step-{self.step}")

    @rule()
    def lose_or_heal(self) -> None:
        armed = self.world.bench.faults.armed
        self.world.bench.faults.clean()
        if not armed:
            self.world.bench.arm("memory.reset: drop", times=3)

    @invariant()
    def only_lost_steps_are_held(self) -> None:
        assert self.world.owners <= set(self.lost)
        usage = self.world.model.pools[PoolKind.ACTIVATION].usage()
        assert usage.conserved
        if len(self.lost) <= STEPS_MAX:
            assert self.world.owners == set(self.lost), "nothing is taken back while there is room"


TestLost = Lost.TestCase
TestLost.settings = machine_settings(runs=40, steps=30)
