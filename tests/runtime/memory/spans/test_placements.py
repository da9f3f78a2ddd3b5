"""What is special about each allocator, by small pictures."""

from itertools import pairwise

import pytest

from runtime.memory.spans.arena import Arena
from runtime.memory.spans.classes import BLOCKS_PER_RUN, CLASSES, RUN_BYTES_MAX, Classes, blocks_of
from runtime.memory.spans.extents import Extents
from runtime.memory.spans.failures import LifetimeEscape, OutOfMemory, RingFull
from runtime.memory.spans.placement import Place
from runtime.memory.spans.ring import Ring
from runtime.memory.spans.span import AllocRequest, Lifetime, ResetScope, Span
from runtime.memory.spans.span_pool import SpanPool
from runtime.memory.spans.upstream import Reserve, Segments
from tests.runtime.memory.spans.bench import KIB, MIB, Bench, ask, check, stay


def step(size_bytes: int, lifetime: Lifetime = Lifetime.GRAPH) -> AllocRequest:
    return AllocRequest(size_bytes, lifetime=lifetime)


def arena(segment_kib: int = 64, total_kib: int = 1024) -> tuple[SpanPool, Bench]:
    bench = Bench(total_kib)
    return SpanPool(bench.env, "activation", Arena(Segments(bench.reserve, "activation", segment_kib * KIB))), bench


def test_a_span_that_would_outlive_its_arena_is_refused():
    pool, _ = arena()
    for lifetime in (Lifetime.SESSION, Lifetime.GLOBAL):
        with pytest.raises(LifetimeEscape, match="holds nothing longer than graph"):
            pool.alloc(AllocRequest(1, lifetime=lifetime, session="s"))


def test_an_arena_falls_back_to_the_mark_where_its_operators_began():
    pool, _ = arena()
    pool.alloc(step(1000))
    pool.alloc(step(5000, Lifetime.OP))
    pool.alloc(step(5000, Lifetime.OP))
    pool.reset(ResetScope(Lifetime.OP), None)
    assert pool.alloc(step(1)).offset == 1024


def test_two_steps_in_flight_take_three_segments_for_ever():
    pool, bench = arena(segment_kib=16)
    flying = []
    offsets = set()
    for _ in range(50):
        offsets.add(pool.alloc(step(9 * KIB)).offset)
        flying.append(bench.launch())
        pool.reset(ResetScope(Lifetime.GRAPH), flying[-1])
        if len(flying) == 3:
            bench.complete(flying.pop(0))
    assert pool.usage().total_bytes == 3 * 16 * KIB
    assert offsets == {0}


def test_an_arena_step_larger_than_a_segment_gets_one_of_its_own():
    pool, _ = arena(segment_kib=4)
    assert pool.alloc(step(10 * KIB)).segment == pool.alloc(step(1)).segment - 1
    assert pool.usage().total_bytes == 14 * KIB


def ring(kib: int = 8) -> SpanPool:
    bench = Bench()
    return SpanPool(bench.env, "workspace", Ring(Segments(bench.reserve, "workspace", kib * KIB)))


def op(kib: int) -> AllocRequest:
    return AllocRequest(kib * KIB)


def test_a_ring_wraps_and_never_splits_a_span_over_its_end():
    pool = ring(8)
    first, _ = pool.alloc(op(3)), pool.alloc(op(3))
    pool.free(first, None)
    assert pool.alloc(op(3)).offset == 0
    with pytest.raises(RingFull):
        pool.alloc(op(1))


def test_a_full_ring_is_a_typed_error_and_overwrites_nothing():
    pool = ring(8)
    spans = [pool.alloc(op(4)), pool.alloc(op(4))]
    with pytest.raises(RingFull) as caught:
        pool.alloc(op(1))
    assert (caught.value.code, caught.value.http) == ("workspace_full", 429)
    assert [span for span, _ in pool.live()] == spans
    with pytest.raises(RingFull):
        ring(8).alloc(op(9))


def test_a_ring_pins_what_comes_back_out_of_order_until_its_neighbours_do():
    pool = ring(8)
    oldest, middle, newest = (pool.alloc(op(2)) for _ in range(3))
    pool.free(middle, None)
    assert (pool.usage().pinned_bytes, pool.usage().free_bytes) == (2 * KIB, 2 * KIB)
    pool.free(newest, None)
    assert (pool.usage().pinned_bytes, pool.usage().free_bytes) == (0, 6 * KIB)
    pool.free(oldest, None)
    assert pool.usage().largest_free_bytes == 8 * KIB


def extents(high_from_kib: int = 8) -> Extents:
    return Extents(Segments(Reserve(64 * KIB), "io", 64 * KIB), high_from_kib * KIB)


def test_small_extents_are_laid_from_the_low_end_and_large_ones_from_the_high():
    places = extents()
    assert [places.place(kib * KIB, 1).offset // KIB for kib in (2, 16, 2, 16)] == [0, 48, 2, 32]


def test_a_small_extent_takes_no_bite_out_of_a_large_hole():
    places = extents()
    _, large, _ = (places.place(kib * KIB, 1) for kib in (2, 16, 16))
    places.put_back(large)
    assert places.place(2 * KIB, 1).offset == 2 * KIB
    assert places.place(16 * KIB, 1).offset == 48 * KIB


def test_neighbours_merge_whichever_comes_back_first():
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        places = extents()
        three = [places.place(2 * KIB, 1) for _ in range(3)]
        for at in order:
            places.put_back(three[at])
        assert (places.largest_free_bytes, places.drop_empty()) == (64 * KIB, 64 * KIB)


def test_the_classes_are_the_seeds():
    table = "64 96 128 192 256 384 512 768 1024 1536 2048 3072 4096 6144 8192 12288 16384 24576 32768 49152 65536 98304"
    assert list(CLASSES) == [int(size) for size in [*table.split(), 131072]]


@pytest.mark.parametrize(
    ("size_bytes", "alignment", "size"),
    [(1, 1, 64), (64, 64, 64), (65, 32, 96), (65, 64, 128), (97, 1, 128), (131072, 4096, 131072), (131073, 1, None)],
)
def test_a_class_holds_its_request_and_keeps_its_alignment(size_bytes: int, alignment: int, size: int | None):
    assert Classes(extents()).class_of(size_bytes, alignment) == size


def test_no_class_wastes_more_than_a_third_of_a_block():
    steps = pairwise(CLASSES)
    assert max(1 - (smaller + 1) / larger for smaller, larger in steps if smaller > 64) < 1 / 3


def test_a_refill_cuts_sixteen_blocks_as_long_as_a_run_stays_short():
    assert [blocks_of(size) for size in (64, 16384, 24576, 131072)] == [BLOCKS_PER_RUN, 16, 10, 2]
    assert max(size * blocks_of(size) for size in CLASSES) <= RUN_BYTES_MAX


def test_blocks_coalesce_into_a_large_span_again():
    bench = Bench(total_kib=1024)
    spans = [bench.pool.alloc(ask(4000)) for _ in range(250)]
    for span in spans:
        bench.pool.free(span, None)
    assert bench.pool.alloc(ask(1024 * KIB)).offset == 0


def test_a_block_that_comes_and_goes_cuts_one_run_only():
    bench = Bench()
    for _ in range(10):
        bench.pool.free(bench.pool.alloc(ask(100)), None)
    assert (bench.pool.usage().allocs, bench.pool.usage().hits) == (10, 9)


def test_one_spare_run_a_class_is_kept_and_given_up_when_asked():
    bench = Bench()
    spans = [bench.pool.alloc(ask(1024)) for _ in range(48)]
    for span in spans:
        bench.pool.free(span, None)
    usage = bench.pool.usage()
    assert usage.free_bytes - usage.largest_free_bytes <= 32 * KIB
    assert bench.pool.release_free() == 1024 * KIB


def test_where_no_whole_run_fits_a_few_blocks_do():
    bench = Bench(total_kib=64, segment_kib=64)
    bench.pool.alloc(ask(8192))
    bench2 = Bench(total_kib=64, segment_kib=64)
    assert len({bench2.pool.alloc(ask(12288)).offset for _ in range(5)}) == 5
    with pytest.raises(OutOfMemory):
        bench2.pool.alloc(ask(12288))


def test_defrag_drains_sparse_runs_into_earlier_ones():
    bench = Bench()
    spans = [bench.pool.alloc(ask(1024, f"r{n}")) for n in range(64)]
    for n, span in enumerate(spans):
        if n % 8:
            bench.pool.free(span, None)
    at = {span: span for span in spans[::8]}

    def move(old: Span, new: Span, size_bytes: int) -> None:
        at[next(first for first, last in at.items() if last == old)] = new

    bench.pool.defrag(move, None)
    assert max(span.offset for span in at.values()) < 16 * KIB
    assert bench.pool.usage().largest_free_bytes == 1024 * KIB - 16 * KIB
    assert bench.pool.defrag(move, None) == 0, "what is packed was moved again"


def test_a_block_does_not_slide_out_of_its_run():
    bench = Bench()
    before, _ = bench.pool.alloc(ask(256)), bench.pool.alloc(ask(1024))
    bench.pool.free(before, None)
    assert bench.pool.defrag(stay, None, overlap=True) == 0


def test_a_refill_is_no_hit_though_its_segment_was_there():
    bench = Bench()
    for size_bytes in (100, 1000, 10_000):
        bench.pool.alloc(ask(size_bytes))
    assert (bench.pool.usage().allocs, bench.pool.usage().hits) == (3, 0)


def test_an_old_place_waits_for_the_barrier_though_its_copy_is_done():
    bench = Bench()
    hole, _ = bench.pool.alloc(ask(200 * KIB)), bench.pool.alloc(ask(200 * KIB))
    bench.pool.free(hole, None)
    flying = bench.launch()
    back: list[Place] = []
    bench.pool.on_return.append(back.append)
    assert bench.pool.defrag(stay, flying) == 200 * KIB
    assert (back, bench.pool.usage().limbo_bytes) == ([], 200 * KIB)
    bench.complete(flying)
    assert [place.offset for place in back] == [200 * KIB]


def test_an_old_place_waits_for_its_copy_though_the_barrier_is_done():
    bench = Bench()
    hole, _ = bench.pool.alloc(ask(200 * KIB)), bench.pool.alloc(ask(200 * KIB))
    bench.pool.free(hole, None)
    barrier, copy = bench.launch(), bench.launch()
    bench.complete(barrier)
    bench.pool.defrag(lambda old, new, size_bytes: copy, barrier)
    assert bench.pool.usage().limbo_bytes == 200 * KIB
    bench.complete(copy)
    assert bench.pool.usage().limbo_bytes == 0


def test_a_slide_needs_a_quiet_device():
    bench = Bench(total_kib=2048, segment_kib=2048)
    hole, _ = bench.pool.alloc(ask(200 * KIB)), bench.pool.alloc(ask(1000 * KIB))
    bench.pool.free(hole, None)
    nail = bench.pool.alloc(ask(150 * KIB))
    bench.pool.free(nail, None)
    flying = bench.launch()
    moves: list[Place] = []

    def move(old: Span, new: Span, size_bytes: int) -> None:
        moves.append(Place(new.segment, new.offset, new.bytes))

    assert bench.pool.defrag(move, flying, overlap=True) == 0
    bench.complete(flying)
    assert bench.pool.defrag(move, flying, overlap=True) == 1000 * KIB
    assert moves == [(0, 0, 1000 * KIB, 0)]
    assert bench.pool.usage().fragmentation == 0


@pytest.mark.parametrize("overlap", [False, True])
def test_a_move_that_fails_leaves_every_span_where_it_was(overlap: bool):
    bench = Bench(total_kib=2048, segment_kib=2048)
    hole, span = (bench.pool.alloc(ask(kib * KIB)) for kib in ((200, 1000) if overlap else (200, 200)))
    bench.pool.free(hole, None)
    before = bench.pool.usage()

    def broken(old: Span, new: Span, size_bytes: int) -> None:
        raise RuntimeError("the copy engine is gone")

    with pytest.raises(RuntimeError, match="copy engine"):
        bench.pool.defrag(broken, None, overlap=overlap)
    assert [one for one, _ in bench.pool.live()] == [span]
    assert (bench.pool.find(span), bench.pool.usage()) == (ask(span.bytes), before)
    check(bench.pool)


def test_segment_ids_are_never_used_twice():
    bench = Bench(total_kib=1024)
    ids = []
    for _ in range(3):
        span = bench.pool.alloc(ask(MIB))
        ids.append(span.segment)
        bench.pool.free(span, None)
        bench.pool.release_free()
    assert ids == [0, 1, 2]
