import struct

import pytest

from runtime.device.torch_segments import SENTINEL
from runtime.memory.spans.adaptors.fault import Fault
from runtime.memory.spans.adaptors.limit import Limit
from runtime.memory.spans.adaptors.stats import Stats
from runtime.memory.spans.adaptors.track import Track
from runtime.memory.spans.failures import DoubleFree, LimitReached, OutOfMemory, UnknownSpan
from runtime.memory.spans.fragmentation_policy import Advice
from runtime.memory.spans.span import Lifetime, ResetScope
from tests.runtime.memory.spans.bench import KIB, Bench, ask


def test_a_limit_refuses_before_the_device_does_and_counts_what_is_in_limbo():
    bench = Bench()
    pool = Limit(bench.pool, 300 * KIB)
    span, ticket = pool.alloc(ask(200 * KIB)), bench.launch()
    pool.free(span, ticket)
    with pytest.raises(LimitReached, match=rf"{100 * KIB} B are left below its limit of {300 * KIB} B") as caught:
        pool.alloc(ask(200 * KIB))
    assert (caught.value.fragmented, caught.value.code) == (False, "memory_limit")
    assert bench.pool.usage().allocs == 1, "the device was asked all the same"
    bench.complete(ticket)
    pool.alloc(ask(300 * KIB))


def test_a_limit_undoes_what_only_rounding_takes_over_it():
    bench = Bench()
    pool = Limit(bench.pool, 1500)
    pool.alloc(ask(512))
    with pytest.raises(LimitReached):
        pool.alloc(ask(800))  # 1024 as a class
    assert (bench.pool.usage().live, bench.pool.taken_bytes) == (1, 512)


def test_a_limit_can_be_set_below_what_is_held_and_never_takes_it_away():
    pool = Limit(Bench().pool, 4096)
    kept = pool.alloc(ask(4096))
    pool.bytes_max = 0
    assert pool.find(kept) == ask(4096)
    with pytest.raises(LimitReached):
        pool.alloc(ask(1))


def test_a_double_free_says_how_it_ended_the_first_time():
    bench = Bench()
    pool = Track(bench.pool, bench.env)
    freed, reset = pool.alloc(ask(100, "r1")), pool.alloc(ask(100, "r2"))
    bench.clock.advance(2.5)
    pool.free(freed, None)
    pool.reset(ResetScope(Lifetime.SESSION, "r2"), None)
    with pytest.raises(DoubleFree, match=r"the first time: freed #1 100 B of r1 at 2.500 s"):
        pool.free(freed, None)
    with pytest.raises(DoubleFree, match=r"the first time: reset session #2 100 B of r2 at 2.500 s"):
        pool.free(reset, None)


def test_a_double_free_long_after_is_still_one():
    bench = Bench()
    pool = Track(bench.pool, bench.env)
    first = pool.alloc(ask(100))
    pool.free(first, None)
    for _ in range(1024):
        pool.free(pool.alloc(ask(100)), None)
    with pytest.raises(DoubleFree, match="too long ago"):
        pool.free(first, None)


def test_a_free_that_a_fault_lost_is_told_from_one_that_was_made():
    bench = Bench()
    track = Track(bench.pool, bench.env)
    pool = Fault(track, bench.env)
    span = pool.alloc(ask(100, "r1"))
    bench.arm("memory.free: drop")
    pool.free(span, None)
    assert [fire.action for fire in bench.fires] == ["drop"]
    assert bench.env.ledger.history("r1") == "0.000s io alloc #1 100 B"
    assert bench.env.ledger.leaked("io", alive=()) == 1
    pool.free(span, None)
    assert bench.env.ledger.leaked("io", alive=()) == 0


def test_out_of_memory_before_touches_nothing_and_after_gives_everything_back():
    for place in ("before", "after"):
        bench = Bench()
        pool = Fault(bench.pool, bench.env)
        bench.arm("memory.alloc: oom", place, skip=1)
        pool.alloc(ask(100))
        with pytest.raises(OutOfMemory, match="injected by fault f"):
            pool.alloc(ask(100))
        usage = bench.pool.usage()
        assert (usage.live, usage.allocs) == (1, 1 if place == "before" else 2)
        pool.alloc(ask(100))
        assert len(bench.fires) == 1


def test_faults_see_size_group_session_and_pool():
    bench = Bench()
    pool = Fault(bench.pool, bench.env)
    bench.arm("memory.alloc: oom")
    with pytest.raises(OutOfMemory):
        pool.alloc(ask(100, "r1", group="batch"))
    assert "size_bytes=100 group=batch session=r1 pool=io" in bench.fires[0].evidence


def test_a_lost_reset_leaves_every_span_with_its_owner():
    bench = Bench()
    pool = Fault(bench.pool, bench.env)
    span = pool.alloc(ask(100, "r1"))
    bench.arm("memory.reset: drop")
    assert pool.reset(ResetScope(Lifetime.SESSION, "r1"), None) == 0
    assert list(bench.env.ledger.outstanding()) == [("io", "r1", 1)]
    assert pool.find(span) == ask(100, "r1")
    assert pool.reset(ResetScope(Lifetime.SESSION, "r1"), None) == 100


def test_a_misuse_is_refused_alike_with_a_fault_armed():
    bench = Bench()
    pool = Fault(bench.pool, bench.env)
    span = pool.alloc(ask(100))
    pool.free(span, None)
    bench.arm("memory.free: drop")
    with pytest.raises(DoubleFree):
        pool.free(span, None)
    with pytest.raises(UnknownSpan):
        pool.free(span._replace(pool="q"), None)
    assert not bench.fires


def test_stats_tell_what_failed_from_what_failed_in_pieces():
    bench = Bench()
    pool = Stats(bench.pool, bench.clock)
    holes = [pool.alloc(ask(250 * KIB)) for _ in range(4)]
    with pytest.raises(OutOfMemory):
        pool.alloc(ask(500 * KIB))
    for span in holes[::2]:
        pool.free(span, None)
    with pytest.raises(OutOfMemory) as caught:
        pool.alloc(ask(500 * KIB))
    assert caught.value.fragmented
    usage = pool.usage()
    assert (usage.failed, usage.fragmentation_failures, usage.peak_bytes) == (2, 1, 1000 * KIB)
    assert usage.failure_rate == pytest.approx(2 / 6)
    assert usage.hit_rate == pytest.approx(3 / 4)
    assert usage.fragmentation == pytest.approx(1 - 250 / 524)


def test_out_of_memory_is_given_per_hour_of_the_pools_life():
    bench = Bench()
    pool = Stats(bench.pool, bench.clock)
    assert pool.usage().failed_per_hour == 0
    with pytest.raises(OutOfMemory):
        pool.alloc(ask(5000 * KIB))
    bench.clock.advance(1800)
    assert pool.usage().failed_per_hour == 2


def test_latency_p99_is_the_nearest_rank_by_the_timer_and_unknown_without_one():
    bench = Bench()

    class Slow(Fault):
        took_s = 0.0

        def alloc(self, request):
            bench.clock.advance(self.took_s)
            return super().alloc(request)

    slow = Slow(bench.pool, bench.env)
    pool, untimed = Stats(slow, bench.clock, bench.clock.now_ns), Stats(slow, bench.clock)
    for n in range(1, 101):
        slow.took_s = n / 1000
        pool.alloc(ask(10))
        untimed.alloc(ask(10))
    assert (pool.usage().latency_ns_p99, untimed.usage().latency_ns_p99) == (99_000_000, None)


def test_fragmentation_is_looked_at_more_rarely_while_nothing_changes():
    bench = Bench()
    looks = []

    class Watched(Fault):
        def usage(self):
            looks.append(1)
            return super().usage()

    pool = Stats(Watched(bench.pool, bench.env), bench.clock)
    for _ in range(1000):
        pool.alloc(ask(10))
    assert len(looks) <= 11
    assert pool._policy.advice is Advice.NONE


def test_a_look_follows_soon_after_the_advice_has_changed():
    bench = Bench()
    pool = Stats(bench.pool, bench.clock)
    spans = [pool.alloc(ask(140 * KIB)) for _ in range(7)]
    for span in spans[::2]:
        pool.free(span, None)
    assert pool.advise() is Advice.MERGE
    pool.free(spans[1], None)
    pool.free(spans[3], None)
    pool.free(spans[5], None)
    pool.alloc(ask(10))
    assert pool._policy.advice is Advice.NONE


@pytest.mark.parametrize("form", ["e", "f", "d", "i", "q"])
def test_the_sentinel_is_finite_and_far_from_any_real_value(form: str):
    (value,) = struct.unpack(form, bytes([SENTINEL]) * struct.calcsize(form))
    assert 200 < value < float("inf")
