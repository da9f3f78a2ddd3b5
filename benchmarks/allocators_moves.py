"""What moving spans buys, and at what price; a part of allocators.py. One pool, one segment, 2/16/2 MiB, freed: random.

Spans are moved in a quiet moment each so many rounds, at most so many MiB at a time; right after one fragmentation is
0 where the budget was enough, and it grows again until the next. `of asked` sets the bytes that were copied beside
those that were asked for; what a copy costs on this machine, the last row says.
"""

import argparse
import statistics
import time

from benchmarks.allocators_heaps import MIB, Ours, Room
from benchmarks.allocators_trace import PAGE_BYTES, play
from benchmarks.allocators_traces import ORDERS, wishes

EACH = (50, 10, 5, 1)
BUDGETS_MIB = (4, 16, 32, None)


def moves(options: argparse.Namespace) -> list[str]:
    """One row an interval and a budget."""
    room_bytes = options.room_mib * MIB
    rows = [f"moves, room {options.room_mib} MiB, load {options.fill:.0%}, seed {options.seed}"]
    rows.append(f"{'':34}{'fragmentation':>14}{'failures':>9}{'copies':>8}{'moved':>10}{'of asked':>10}")
    for each in (0, *EACH):
        for budget in BUDGETS_MIB if each else (None,):
            heap = Ours(
                Room(room_bytes, PAGE_BYTES), quiet_each=each, quiet_bytes=None if budget is None else budget * MIB
            )
            played = play(heap, wishes(ORDERS["random"], int(room_bytes * options.fill), options.seed))
            limit = "all that helps" if budget is None else f"{budget} MiB"
            name = f"  {limit}, each {each} rounds" if each else "  nothing is moved"
            rows.append(
                f"{name:34}{statistics.mean(played.fragmentation):14.1%}{played.failures:9}{heap.copies:8}"
                f"{heap.moved_bytes / MIB:6.0f} MiB{heap.moved_bytes / played.asked_bytes:10.1%}"
            )
    return [*rows, _copy_row()]


def _copy_row() -> str:
    import torch

    torch.set_num_threads(1)
    source, target = (torch.zeros(16 * MIB, dtype=torch.uint8) for _ in range(2))
    figures = []
    for _ in range(21):
        start_ns = time.perf_counter_ns()
        target.copy_(source)
        figures.append((time.perf_counter_ns() - start_ns) / 16_000)
    return f"  one copy here: {min(figures):.0f} us a MiB at best, {statistics.median(figures):.0f} in the median"
