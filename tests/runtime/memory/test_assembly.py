"""The pools of a runtime: who backs what, what each can take, and that a fault in one leaves the others alone."""

import pytest

from runtime.core.ports import Ticket
from runtime.core.work import Copy
from runtime.memory.assembly import STEPS_MAX, PoolSizes, device_pools
from runtime.memory.host import HostMemory, HostSegments
from runtime.memory.kv.paged import PagedPool
from runtime.memory.spans.failures import LifetimeEscape, LimitReached, OutOfMemory, RingFull
from runtime.memory.spans.pool import Pool, Pools
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, ResetScope
from runtime.memory.spans.upstream import Reserve
from tests.runtime.memory.spans.bench import KIB, Bench

SIZES = PoolSizes(weight=64 * KIB, step=16 * KIB, workspace=8 * KIB)


def both(bench: Bench, room_kib: int = 4096) -> tuple[Pool, Pools]:
    room = Reserve(room_kib * KIB)
    segments = HostSegments(room, 2048 * KIB, lambda old, new, size_bytes: None)
    host = HostMemory(bench.env, PagedPool(bench.env, 1, 4), segments, 1, no_copy)
    return host.pool, device_pools(bench.env, room, SIZES)


def no_copy(copy: Copy) -> Ticket:
    raise AssertionError("nothing is swapped here")


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
    assert [span for span, _ in engine.live()] == [other]


def test_swap_has_a_bound_of_its_own():
    engine, _ = both(Bench())
    with pytest.raises(LimitReached):
        engine.alloc(swap(2049 * KIB))


def test_steps_lie_in_one_segment_that_is_made_once():
    bench = Bench()
    _, device = both(bench)
    for number in range(20):
        for size in (4000, 8000, 3000):
            device[PoolKind.ACTIVATION].alloc(step(size, f"step-{number}"))
        device[PoolKind.ACTIVATION].reset(ResetScope(Lifetime.GRAPH, f"step-{number}"), None)
    usage = device[PoolKind.ACTIVATION].usage()
    assert (usage.allocs, usage.hits, usage.live, usage.total_bytes) == (60, 59, 0, 16 * KIB)


def test_a_lost_reset_is_seen_with_its_step_and_costs_one_segment():
    bench = Bench()
    _, device = both(bench)
    bench.arm("memory.reset: drop", times=1)
    for number in range(STEPS_MAX + 2):
        device[PoolKind.ACTIVATION].alloc(step(16 * KIB, f"step-{number}"))
        device[PoolKind.ACTIVATION].reset(ResetScope(Lifetime.GRAPH, f"step-{number}"), None)
    held = [request.owner for _, request in device[PoolKind.ACTIVATION].live()]
    assert (held, device[PoolKind.ACTIVATION].usage().total_bytes) == (["step-0"], 32 * KIB)


def test_lost_resets_are_taken_back_only_when_room_is_short():
    bench = Bench()
    _, device = both(bench)
    activation = device[PoolKind.ACTIVATION]
    bench.arm("memory.reset: drop", times=STEPS_MAX)
    for number in range(STEPS_MAX):
        device[PoolKind.ACTIVATION].alloc(step(16 * KIB, f"step-{number}"))
        activation.reset(ResetScope(Lifetime.GRAPH, f"step-{number}"), None)
    assert device[PoolKind.ACTIVATION].usage().live == STEPS_MAX
    span = device[PoolKind.ACTIVATION].alloc(step(16 * KIB, "step-9"))
    assert [one for one, _ in activation.live()] == [span]
    assert bench.env.counters.take() == {"memory.out_of_memory": 1, "memory.take_back": 1}


def test_workspace_is_for_operators_only_and_says_when_it_is_full():
    _, device = both(Bench())
    scratch = AllocRequest(5 * KIB, pool=PoolKind.WORKSPACE)
    device[PoolKind.WORKSPACE].alloc(scratch)
    with pytest.raises(RingFull):
        device[PoolKind.WORKSPACE].alloc(scratch)
    with pytest.raises(LifetimeEscape):
        device[PoolKind.WORKSPACE].alloc(AllocRequest(1, pool=PoolKind.WORKSPACE, lifetime=Lifetime.GRAPH))


def test_the_ladder_is_tried_before_a_step_fails():
    bench = Bench()
    _, device = both(bench, room_kib=24)
    ring = device[PoolKind.WORKSPACE]
    ring.free(ring.alloc(AllocRequest(KIB, pool=PoolKind.WORKSPACE)), None)  # it is empty and has 8 KiB
    device[PoolKind.ACTIVATION].alloc(step(16 * KIB))
    device[PoolKind.ACTIVATION].alloc(step(8 * KIB))
    assert bench.env.counters.total["memory.release_free"] == 1
    with pytest.raises(OutOfMemory):
        device[PoolKind.ACTIVATION].alloc(step(KIB))
    assert bench.env.counters.total["memory.reject"] == 1


def test_pools_of_the_device_leave_the_engines_ledger_alone():
    bench = Bench()
    engine, device = both(bench)
    device[PoolKind.ACTIVATION].alloc(step(100))
    engine.alloc(swap(100))
    assert list(bench.env.ledger.outstanding()) == [("io", "chat-1", 1)]


def test_sizes_are_checked_together():
    with pytest.raises(ValueError, match="step = 0, workspace = -1: give at least 1 byte"):
        PoolSizes(step=0, workspace=-1)
