import pytest

from runtime.memory.spans.adaptors import Limit, Stats
from runtime.memory.spans.arena import Arena
from runtime.memory.spans.failures import LimitReached
from runtime.memory.spans.pools import Pools
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, ResetScope, Span
from runtime.memory.spans.span_pool import SpanPool
from runtime.memory.spans.upstream import Segments
from runtime.memory.spans.usage import Usage, figures_of, print_stats
from tests.runtime.memory.spans.bench import KIB, Bench, ask


def pools(segment_kib: int = 1024) -> tuple[Pools, Bench]:
    bench = Bench(4096, segment_kib)
    activation = SpanPool(bench.env, "activation", Arena(Segments(bench.reserve, "activation", 64 * KIB)))
    io = Stats(Limit(bench.pool, 4096 * KIB), bench.clock)
    return Pools({PoolKind.ACTIVATION: activation, PoolKind.IO: io}), bench


def test_each_kind_goes_to_its_pool_and_comes_back_by_its_span():
    both, _ = pools()
    spans = [both.alloc(AllocRequest(100, 64, kind, Lifetime.OP)) for kind in (PoolKind.ACTIVATION, PoolKind.IO)]
    assert [span.pool for span in spans] == ["activation", "io"]
    assert both.usage(PoolKind.ACTIVATION).live == both.usage(PoolKind.IO).live == 1
    for span in spans:
        both.free(span, None)
    assert both.usage(PoolKind.ACTIVATION).live == both.usage(PoolKind.IO).live == 0


def test_a_kind_without_a_pool_is_refused_by_name():
    both, _ = pools()
    with pytest.raises(KeyError, match="no pool of kind weight; there are activation, io"):
        both.alloc(AllocRequest(100, 64, PoolKind.WEIGHT, Lifetime.GLOBAL))


def test_two_pools_of_one_name_are_refused():
    bench = Bench()
    with pytest.raises(ValueError, match="two pools of one name"):
        Pools({PoolKind.IO: bench.pool, PoolKind.WEIGHT: bench.another("io")})


def test_a_session_ends_in_every_pool_at_once_and_each_byte_is_counted_once():
    both, _ = pools()
    for kind, lifetime in [(PoolKind.ACTIVATION, Lifetime.GRAPH), (PoolKind.IO, Lifetime.SESSION)]:
        both.alloc(AllocRequest(100, 64, kind, lifetime, "s"))
    assert both.reset(ResetScope(Lifetime.SESSION, "s"), None) == 200
    assert both.release_free() == 64 * KIB + 1024 * KIB


def test_a_limit_is_set_by_kind_and_only_where_there_is_one():
    both, _ = pools()
    assert both.set_pool_limit(PoolKind.IO, 10) == 4096 * KIB
    with pytest.raises(LimitReached):
        both.alloc(ask(100))
    with pytest.raises(LookupError, match="put the adaptor Limit on it"):
        both.set_pool_limit(PoolKind.ACTIVATION, 10)


@pytest.mark.parametrize(("segment_kib", "n", "moves"), [(1024, 6, 0), (2048, 14, 4)])
def test_tending_moves_in_the_top_band_only_and_only_kinds_that_can_be_moved(segment_kib: int, n: int, moves: int):
    both, _ = pools(segment_kib)
    where: dict[Span, Span] = {}
    spans = [both.alloc(ask(140 * KIB)) for _ in range(n)]
    for span in spans[::2]:
        both.free(span, None)
    assert both.usage(PoolKind.IO).fragmentation == pytest.approx(0.87 if moves else 0.695, abs=0.01)
    assert both.tend({}, None) == 0
    moved_bytes = both.tend({PoolKind.IO: lambda old, new, size_bytes: where.update({old: new})}, None)
    assert (moved_bytes, len(where)) == (140 * KIB * moves, moves)
    assert (both.usage(PoolKind.IO).fragmentation == 0) == bool(moves)


def test_tending_leaves_an_empty_segment_alone_until_free_bytes_are_in_pieces():
    both, _ = pools()
    first, second = both.alloc(ask(1000 * KIB)), both.alloc(ask(1000 * KIB))
    both.free(first, None)
    both.tend({}, None)
    assert (both.usage(PoolKind.IO).total_bytes, both.usage(PoolKind.IO).fragmentation < 0.3) == (2048 * KIB, True)
    both.alloc(ask(100 * KIB))
    both.alloc(ask(1000 * KIB))
    both.free(second, None)
    assert both.usage(PoolKind.IO).fragmentation >= 0.3
    both.tend({}, None)
    assert both.usage(PoolKind.IO).total_bytes == 2048 * KIB


def test_stats_are_printed_one_row_a_pool_and_what_has_no_meaning_as_a_dash():
    both, _ = pools()
    both.alloc(ask(200 * KIB))
    head, *rows = print_stats([both.usage(PoolKind.ACTIVATION), both.usage(PoolKind.IO)]).splitlines()
    assert head.split()[:7] == ["pool", "total", "asked", "held", "limbo", "free", "largest"]
    assert rows[-1].split()[:11] == ["io", "1.00", "0.20", "0.20", "0.00", "0.80", "0.80", "0.0", "0.0", "1", "1"]
    assert rows[-1].split()[11:] == ["0.0", "0.20", "0", "0", "-", "-", "-", "0.0"]
    assert len({len(row) for row in (head, *rows)}) == 1


def usage(**figures: int) -> Usage:
    names = "total_bytes asked_bytes held_bytes limbo_bytes free_bytes largest_free_bytes pinned_bytes live allocs hits"
    return Usage("p", **{**dict.fromkeys(names.split(), 0), **figures})


def test_a_pool_with_nothing_free_is_not_fragmented():
    assert usage().fragmentation == usage().internal_fragmentation == usage(failed=0).failure_rate == 0
    assert usage().hit_rate == 1


def test_figures_are_the_seeds():
    told = usage(free_bytes=10, largest_free_bytes=4, asked_bytes=3, held_bytes=4, allocs=8, hits=6, failed=2)
    assert told.fragmentation == pytest.approx(0.6)
    assert told.internal_fragmentation == pytest.approx(0.25)
    assert told.hit_rate == pytest.approx(0.75)
    assert told.failure_rate == pytest.approx(0.2)
    assert usage(failed=3, age_ns=1_800_000_000_000).failed_per_hour == 6


def test_a_figure_that_a_pool_does_not_have_is_left_out():
    names = figures_of(usage()).keys()
    assert names.isdisjoint(("failed", "failure_rate", "failed_per_hour", "peak_bytes", "latency_ns_p99", "leaks"))
    assert names >= {"fragmentation", "internal_fragmentation", "hit_rate", "asked_bytes"}
    assert usage(rungs={"defrag": 2, "release_free": 1, "reject": 5}).fallbacks == 3  # type: ignore[arg-type]
