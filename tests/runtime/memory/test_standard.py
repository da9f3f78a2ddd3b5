"""The pools of a runtime: who backs what, what each can take, and that a fault in one leaves the others alone."""

import pytest

from runtime.memory.assembly import STEPS_MAX, PoolSizes, SpanMover, device_pools, engine_pools
from runtime.memory.spans.failures import DefragFailed, LifetimeEscape, LimitReached, OutOfMemory, RingFull
from runtime.memory.spans.pools import Pools
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, ResetScope, Span
from runtime.memory.spans.upstream import Reserve
from tests.runtime.memory.spans.bench import KIB, Bench

SIZES = PoolSizes(weight=64 * KIB, step=16 * KIB, workspace=8 * KIB, io=2048 * KIB, io_segment=1024 * KIB)


def both(bench: Bench, room_kib: int = 4096, mover: SpanMover | None = None) -> tuple[Pools, Pools]:
    room = Reserve(room_kib * KIB)
    return engine_pools(bench.env, room, SIZES, mover or SpanMover()), device_pools(bench.env, room, SIZES)


def swap(size_bytes: int, session: str = "chat-1") -> AllocRequest:
    return AllocRequest(size_bytes, pool=PoolKind.IO, lifetime=Lifetime.SESSION, session=session, group="g")


def step(size_bytes: int, session: str = "step-1") -> AllocRequest:
    return AllocRequest(size_bytes, pool=PoolKind.ACTIVATION, lifetime=Lifetime.GRAPH, session=session)


def test_a_request_that_ends_gives_back_all_its_swap_and_nothing_of_others():
    engine, _ = both(Bench())
    engine.alloc(swap(5000))
    engine.alloc(swap(70 * KIB))
    other = engine.alloc(swap(100, "chat-2"))
    assert engine.reset(ResetScope(Lifetime.SESSION, "chat-1"), None) == 5000 + 70 * KIB
    assert [span for span, _ in engine[PoolKind.IO].live()] == [other]


def test_swap_has_a_bound_of_its_own():
    engine, _ = both(Bench())
    with pytest.raises(LimitReached):
        engine.alloc(swap(2049 * KIB))


def test_steps_lie_in_one_segment_that_is_made_once():
    bench = Bench()
    _, device = both(bench)
    for number in range(20):
        for size in (4000, 8000, 3000):
            device.alloc(step(size, f"step-{number}"))
        device.reset(ResetScope(Lifetime.GRAPH, f"step-{number}"), None)
    usage = device.usage(PoolKind.ACTIVATION)
    assert (usage.allocs, usage.hits, usage.live, usage.total_bytes) == (60, 59, 0, 16 * KIB)


def test_a_lost_reset_is_seen_with_its_step_and_costs_one_segment():
    bench = Bench()
    _, device = both(bench)
    bench.arm("memory.reset: drop", times=1)
    for number in range(STEPS_MAX + 2):
        device.alloc(step(16 * KIB, f"step-{number}"))
        device[PoolKind.ACTIVATION].reset(ResetScope(Lifetime.GRAPH, f"step-{number}"), None)
    held = [request.owner for _, request in device[PoolKind.ACTIVATION].live()]
    assert (held, device.usage(PoolKind.ACTIVATION).total_bytes) == (["step-0"], 32 * KIB)


def test_lost_resets_are_taken_back_only_when_room_is_short():
    bench = Bench()
    _, device = both(bench)
    activation = device[PoolKind.ACTIVATION]
    bench.arm("memory.reset: drop", times=STEPS_MAX)
    for number in range(STEPS_MAX):
        device.alloc(step(16 * KIB, f"step-{number}"))
        activation.reset(ResetScope(Lifetime.GRAPH, f"step-{number}"), None)
    assert device.usage(PoolKind.ACTIVATION).live == STEPS_MAX
    span = device.alloc(step(16 * KIB, "step-9"))
    assert [one for one, _ in activation.live()] == [span]
    assert bench.env.counters.take() == {"memory.out_of_memory": 1, "memory.take_back": 1}


def test_workspace_is_for_operators_only_and_says_when_it_is_full():
    _, device = both(Bench())
    scratch = AllocRequest(5 * KIB, pool=PoolKind.WORKSPACE)
    device.alloc(scratch)
    with pytest.raises(RingFull):
        device.alloc(scratch)
    with pytest.raises(LifetimeEscape):
        device.alloc(AllocRequest(1, pool=PoolKind.WORKSPACE, lifetime=Lifetime.GRAPH))


def test_the_ladder_is_tried_before_a_step_fails():
    bench = Bench()
    _, device = both(bench, room_kib=24)
    device.free(device.alloc(AllocRequest(KIB, pool=PoolKind.WORKSPACE)), None)  # an empty ring of 8 KiB
    device.alloc(step(16 * KIB))
    device.alloc(step(8 * KIB))
    assert bench.env.counters.total["memory.release_free"] == 1
    with pytest.raises(OutOfMemory):
        device.alloc(step(KIB))
    assert bench.env.counters.total["memory.reject"] == 1


def test_pools_of_the_device_leave_the_engines_ledger_alone():
    bench = Bench()
    engine, device = both(bench)
    device.alloc(step(100))
    engine.alloc(swap(100))
    assert list(bench.env.ledger.outstanding()) == [("io", "chat-1", 1)]


def test_spans_move_only_when_their_holder_can_be_told():
    bench = Bench()
    copied: list[int] = []
    mover = SpanMover(lambda old, new, size_bytes: copied.append(size_bytes))
    engine, _ = both(bench, mover=mover)
    spans = [engine.alloc(swap(140 * KIB)) for _ in range(4)]
    engine.free(spans[0], None)
    engine.free(spans[1], None)
    io = engine[PoolKind.IO]
    with pytest.raises(DefragFailed, match="nobody has said who holds"):
        io.defrag(mover, None)
    assert not copied
    told: dict[Span, Span] = {}
    mover.held_by(lambda old, new: told.update({old: new}), lambda: None)
    assert io.defrag(mover, None) == 280 * KIB
    assert sorted(told) == sorted(spans[2:])
    assert sorted(told.values()) == sorted(span for span, _ in io.live())


def test_sizes_are_checked_together():
    with pytest.raises(ValueError, match="step = 0, io = -1: give at least 1 byte"):
        PoolSizes(step=0, io=-1)
