import pytest

from runtime.memory.spans.adaptors.fault import Fault
from runtime.memory.spans.adaptors.retry import Retry, Rung, ladder
from runtime.memory.spans.adaptors.stats import Stats
from runtime.memory.spans.failures import OutOfMemory
from runtime.memory.spans.span import Span
from tests.runtime.memory.spans.bench import KIB, Bench, ask, check, stay


def test_rungs_are_climbed_in_order_and_each_is_counted():
    bench = Bench()
    pool = bench.pool
    kept = [pool.alloc(ask(200 * KIB, f"r{n}")) for n in range(5)]

    def give(n: int):
        return lambda request: n < len(kept) and pool.free(kept.pop(n), None) is None

    retry = Retry(pool, bench.env, [Rung("evict", lambda request: False), Rung("preempt", give(0), times_max=3)])
    stats = Stats(retry, bench.clock)
    stats.alloc(ask(400 * KIB))
    assert [span.offset for span in kept] == [400 * KIB, 600 * KIB, 800 * KIB]
    assert stats.usage().rungs == {"evict": 0, "preempt": 1, "reject": 0}
    assert bench.env.counters.total == {"memory.out_of_memory": 1, "memory.evict": 1, "memory.preempt": 2}
    assert (stats.usage().fallbacks, stats.usage().failed) == (1, 0)


def test_the_ladder_ends_and_the_last_error_comes_out():
    bench = Bench()
    pool = Stats(Retry(bench.pool, bench.env, [Rung("evict", lambda request: True, times_max=4)]), bench.clock)
    with pytest.raises(OutOfMemory, match="asked 2097152 B"):
        pool.alloc(ask(2048 * KIB))
    assert bench.env.counters.total == {"memory.out_of_memory": 1, "memory.evict": 4, "memory.reject": 1}
    assert (pool.usage().rungs, pool.usage().failed) == ({"evict": 0, "reject": 1}, 1)
    assert pool.usage().fallbacks == 0


def test_empty_segments_of_a_neighbour_are_room_for_this_pool():
    bench = Bench(total_kib=1024, segment_kib=512)
    neighbour = bench.another("workspace")
    for span in [neighbour.alloc(ask(400 * KIB)) for _ in range(2)]:
        neighbour.free(span, None)
    pool = Retry(bench.pool, bench.env, ladder(bench.env, bench.pool, neighbours=[neighbour]))
    pool.alloc(ask(500 * KIB))
    assert bench.env.counters.total == {"memory.out_of_memory": 1, "memory.release_free": 1}


def test_a_neighbour_is_packed_when_this_pool_has_nothing_to_move():
    bench = Bench(total_kib=1024, segment_kib=512)
    neighbour = bench.another("workspace")
    first, _, third, _ = [neighbour.alloc(ask(200 * KIB)) for _ in range(4)]
    for span in (first, third):
        neighbour.free(span, None)
    pool = Retry(bench.pool, bench.env, ladder(bench.env, bench.pool, neighbours=[neighbour], move=stay))
    pool.alloc(ask(512 * KIB))
    assert bench.env.counters.total == {"memory.out_of_memory": 1, "memory.release_free": 1, "memory.defrag": 1}


def test_what_is_free_in_pieces_is_served_after_a_defrag():
    bench = Bench()
    pool = Retry(bench.pool, bench.env, ladder(bench.env, bench.pool, move=stay))
    spans = [pool.alloc(ask(250 * KIB)) for _ in range(4)]
    for span in spans[::2]:
        pool.free(span, None)
    pool.alloc(ask(500 * KIB))
    assert pool.usage().fallbacks == 1
    assert bench.env.counters.total == {"memory.out_of_memory": 1, "memory.release_free": 1, "memory.defrag": 1}


def test_a_defrag_moves_no_more_than_the_wish_needs():
    bench = Bench(total_kib=16 * 1024, segment_kib=16 * 1024)
    moved: list[int] = []
    rungs = ladder(bench.env, bench.pool, move=lambda old, new, size_bytes: moved.append(size_bytes))
    pool = Retry(bench.pool, bench.env, rungs)
    spans = [pool.alloc(ask(200 * KIB)) for _ in range(80)]
    for span in spans[::2]:
        pool.free(span, None)
    pool.alloc(ask(400 * KIB))
    assert moved == [200 * KIB] * 8
    pool.alloc(ask(6000 * KIB))
    assert bench.env.counters.total["memory.defrag"] == 2


def test_a_defrag_moves_all_where_some_bytes_are_too_few():
    bench = Bench(total_kib=16 * 1024, segment_kib=16 * 1024)
    pool = Retry(bench.pool, bench.env, ladder(bench.env, bench.pool, move=stay))
    spans = [pool.alloc(ask(kib * KIB)) for _ in range(5) for kib in (200, 3000)]
    for span in spans[::2]:
        pool.free(span, None)
    pool.alloc(ask(900 * KIB))
    assert bench.env.counters.total["memory.defrag"] == 1


def test_room_that_is_still_in_limbo_helps_the_next_request_only():
    bench = Bench()
    ticket = bench.launch()
    kept = [bench.pool.alloc(ask(500 * KIB)), bench.pool.alloc(ask(500 * KIB))]
    rung = Rung("preempt", lambda request: bool(kept) and bench.pool.free(kept.pop(), ticket) is None)
    pool = Retry(bench.pool, bench.env, [rung])
    with pytest.raises(OutOfMemory):
        pool.alloc(ask(400 * KIB))
    bench.complete(ticket)
    pool.alloc(ask(400 * KIB))
    assert pool.usage().fallbacks == 0


@pytest.mark.parametrize("place", ["before", "in_flight"])
def test_a_defrag_that_fails_is_a_rung_that_did_not_help(place: str):
    bench = Bench()
    broken = Fault(bench.pool, bench.env)
    spans = [broken.alloc(ask(170 * KIB)) for _ in range(6)]
    for span in spans[::2]:
        broken.free(span, None)
    moved: list[tuple[Span, Span]] = []
    rungs = ladder(bench.env, broken, move=lambda old, new, size_bytes: moved.append((old, new)))
    pool = Retry(broken, bench.env, rungs)
    bench.arm("memory.defrag: error", place, skip=int(place == "in_flight"))
    with pytest.raises(OutOfMemory):
        pool.alloc(ask(700 * KIB))
    assert bench.env.counters.total["memory.defrag_failed"] == len(bench.fires) == 1
    assert len(moved) == (1 if place == "in_flight" else 0)
    where = dict(moved)
    assert {span for span, _ in pool.live()} == {where.get(span, span) for span in spans[1::2]}
    check(bench.pool)


def test_an_injected_failure_is_met_by_the_ladder_like_a_real_one():
    bench = Bench()
    pool = Retry(Fault(bench.pool, bench.env), bench.env, [Rung("evict", lambda request: True)])
    bench.arm("memory.alloc: oom")
    pool.alloc(ask(100))
    assert pool.usage().fallbacks == 1
    assert bench.env.counters.total == {"memory.out_of_memory": 1, "memory.evict": 1}
