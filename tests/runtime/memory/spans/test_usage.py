"""Figures of pools, and the table of them."""

import pytest

from runtime.memory.spans.adaptors.limit import Limit
from runtime.memory.spans.adaptors.stats import Stats
from runtime.memory.spans.arena import Arena
from runtime.memory.spans.span_pool import SpanPool
from runtime.memory.spans.upstream import Segments
from runtime.memory.spans.usage import Usage, figures_of, print_stats
from tests.runtime.memory.spans.bench import KIB, Bench, ask


def test_stats_are_printed_one_row_a_pool_and_what_has_no_meaning_as_a_dash():
    bench = Bench(4096)
    activation = SpanPool(bench.env, "activation", Arena(Segments(bench.reserve, "activation", 64 * KIB)))
    io = Stats(Limit(bench.pool, 4096 * KIB), bench.clock)
    io.alloc(ask(200 * KIB))
    head, *rows = print_stats([activation.usage(), io.usage()]).splitlines()
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
