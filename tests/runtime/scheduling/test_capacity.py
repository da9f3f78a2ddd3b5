"""Capacity where blocks are shared: what leaves, what stays for who comes, and what all hold at their peak."""

from runtime.scheduling.scheduler import Limits
from tests.runtime.fakes import Bench

PREFIX = [7] * 80
"""20 blocks."""


def bench_of(blocks: int, expected_output: float) -> Bench:
    limits = Limits(token_budget=4096, seqs_max=16, waiting_max=64, expected_output=expected_output, quantum=2)
    return Bench(blocks=blocks, limits=limits, prefix_cache=True)


def running(bench: Bench) -> list[str]:
    return [one.id for one in bench.engine.scheduler.running]


def test_what_short_ones_share_is_no_room_for_long_ones_that_outlive_them():
    bench = bench_of(100, 1.0)
    bench.submit([*PREFIX, 1], max_tokens=20)
    for _ in range(2):
        bench.turn()
    for n in range(2, 10):
        bench.submit([*PREFIX, n], max_tokens=6)
    bench.turn()
    for n in (100, 101):  # 57 blocks each
        bench.submit([n] * 8, max_tokens=220)
        bench.turn()
    bench.run(turns_max=2000)
    assert bench.env.counters.total["kv.preempt"] == 0


def test_nobody_leaves_for_blocks_that_would_stay_for_who_comes():
    bench = bench_of(50, 0.0)
    low = bench.submit([*PREFIX, 1], max_tokens=30)
    bench.submit([9] * 40, max_tokens=60, priority=1)
    for _ in range(6):
        bench.turn()
    bench.submit(PREFIX + [2] * 80, max_tokens=4, priority=1)
    bench.turn()
    assert low in running(bench)
    assert bench.env.counters.total["kv.preempt"] == 0


def test_blocks_that_only_those_who_leave_share_are_room():
    bench = bench_of(50, 0.0)
    bench.submit([*PREFIX, 1], max_tokens=60)
    bench.turn()
    bench.submit([*PREFIX, 2], max_tokens=60)
    bench.submit([9] * 4, max_tokens=60, priority=1)
    for _ in range(8):
        bench.turn()
    high = bench.submit([3] * 120, max_tokens=4, priority=1)
    for _ in range(2):
        bench.turn()
    assert high in running(bench)
    assert bench.env.counters.total["kv.preempt"] == 2
