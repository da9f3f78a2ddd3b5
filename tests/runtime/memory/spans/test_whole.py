from runtime.memory.spans.extents import Extents
from runtime.memory.spans.span import Span
from runtime.memory.spans.span_pool import SpanPool
from runtime.memory.spans.upstream import Segments
from runtime.memory.spans.whole import Whole
from tests.runtime.memory.spans.bench import KIB, Bench, ask


def made(total_kib: int = 256, page_kib: int = 4) -> tuple[SpanPool, Bench]:
    """Shared segments of 64 KiB; from 16 KiB on a span has one of its own."""
    bench = Bench(total_kib)
    segments = Segments(bench.reserve, "p", 64 * KIB)
    placement = Whole(segments, Extents(segments), from_bytes=16 * KIB, page_bytes=page_kib * KIB)
    return SpanPool(bench.env, "p", placement), bench


def left_kib(bench: Bench) -> int:
    return bench.reserve.left_bytes // KIB


def test_a_large_span_has_a_segment_of_its_own_size_and_small_ones_share():
    pool, bench = made()
    large, small, another = (pool.alloc(ask(kib * KIB)) for kib in (16, 15, 15))
    assert (large.segment, small.segment == another.segment != large.segment) == (0, True)
    assert left_kib(bench) == 256 - 16 - 64


def test_what_went_leaves_no_hole_between_others_whatever_lay_beside_it():
    pool, bench = made()
    spans = [pool.alloc(ask(32 * KIB)) for _ in range(8)]
    assert left_kib(bench) == 0
    for span in spans[::2]:
        pool.free(span, None)
    assert pool.alloc(ask(128 * KIB)).bytes == 128 * KIB
    pool.check()


def test_a_kept_segment_is_used_again_for_its_size_and_no_other():
    pool, bench = made()
    first = pool.alloc(ask(32 * KIB))
    pool.free(first, None)
    assert (pool.usage().free_bytes, pool.usage().largest_free_bytes) == (32 * KIB, 32 * KIB)
    assert pool.alloc(ask(20 * KIB)).segment != first.segment
    assert pool.alloc(ask(1 * KIB)).segment != first.segment
    assert pool.alloc(ask(32 * KIB)).segment == first.segment
    assert (pool.usage().allocs, pool.usage().hits, left_kib(bench)) == (4, 1, 256 - 32 - 20 - 64)


def test_no_more_is_given_back_than_is_short_the_longest_unused_first():
    pool, bench = made()
    spans = [pool.alloc(ask(32 * KIB)) for _ in range(8)]
    for at in (3, 1, 2):
        pool.free(spans[at], None)
    pool.alloc(ask(64 * KIB))
    assert pool.alloc(ask(32 * KIB)).segment == spans[2].segment
    assert left_kib(bench) == 0


def test_under_pressure_too_a_large_span_gets_no_more_than_its_own_size():
    pool, bench = made()
    spans = [pool.alloc(ask(32 * KIB)) for _ in range(8)]
    for span in spans[:2]:
        pool.free(span, None)
    pool.alloc(ask(40 * KIB))
    assert left_kib(bench) == 24


def test_small_spans_get_the_room_of_kept_segments_too():
    pool, _ = made()
    for span in [pool.alloc(ask(32 * KIB)) for _ in range(8)]:
        pool.free(span, None)
    assert len([pool.alloc(ask(8 * KIB)) for _ in range(32)]) == 32


def test_an_empty_shared_segment_is_room_for_a_large_span():
    pool, _ = made()
    pool.free(pool.alloc(ask(1 * KIB)), None)
    assert pool.alloc(ask(256 * KIB)).bytes == 256 * KIB


def test_where_no_segment_can_be_made_a_hole_among_the_shared_will_do():
    pool, _ = made(total_kib=64)
    small = pool.alloc(ask(1 * KIB))
    large = pool.alloc(ask(32 * KIB))
    assert (large.segment, pool.usage().total_bytes) == (small.segment, 64 * KIB)
    pool.free(large, None)
    assert pool.usage().free_bytes == 63 * KIB


def test_a_span_that_would_waste_its_last_page_shares():
    pool, _ = made(page_kib=32)
    wasteful, full = pool.alloc(ask(33 * KIB)), pool.alloc(ask(60 * KIB))
    assert pool.alloc(ask(1 * KIB)).segment == wasteful.segment != full.segment
    assert pool.usage().held_bytes == (33 + 64 + 1) * KIB


def test_a_defrag_moves_no_span_out_of_its_own_segment():
    pool, _ = made()
    for kib in (16, 15, 15, 15):
        pool.alloc(ask(kib * KIB))
    assert pool.defrag(lambda old, new, size_bytes: None, None, overlap=True) == 0


def test_a_defrag_packs_what_shares_and_leaves_the_whole_alone():
    pool, bench = made()
    whole = pool.alloc(ask(32 * KIB))
    shared = [pool.alloc(ask(15 * KIB)) for _ in range(8)]
    for span in (shared[0], *shared[5:]):
        pool.free(span, None)
    moved: list[Span] = []
    assert pool.defrag(lambda old, new, size_bytes: moved.append(old), None, overlap=True) == 15 * KIB
    assert (moved, pool.find(whole)) == ([shared[4]], ask(32 * KIB))
    assert (pool.release_free(), left_kib(bench)) == (64 * KIB, 256 - 32 - 64)
