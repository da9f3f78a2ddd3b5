"""Where to lay a span in a room that can't be left: six policies, and nothing moves; a part of allocators.py.

One contiguous room, and only the choice of the hole differs. Means over seeds, with their standard error; a failure is
a wish that found enough free bytes, but not in one piece.
"""

import argparse
import statistics
from bisect import bisect
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.allocators_heaps import MIB, Heap
from benchmarks.allocators_trace import play
from benchmarks.allocators_traces import ORDERS, Wish, any_size, by_lifetime, wishes
from runtime.memory.spans.span import PoolKind

SEEDS = range(1, 9)
HIGH_FROM_BYTES = 4 * MIB
Hole = tuple[int, int]
Rate = Callable[[Hole, int, int], tuple[int, ...]]
"""(hole, bytes asked, bytes of the largest hole) -> the smallest is taken."""


def _high(size_bytes: int) -> bool:
    return size_bytes >= HIGH_FROM_BYTES


POLICIES: dict[str, tuple[Rate, bool]] = {
    "first fit": (lambda hole, size, largest: (hole[0],), False),
    "first fit, two ends (ours)": (lambda hole, size, largest: (-hole[1] if _high(size) else hole[0],), True),
    "first fit, two ends, largest last": (
        lambda hole, size, largest: (hole[1] - hole[0] == largest, -hole[1] if _high(size) else hole[0]),
        True,
    ),
    "best fit": (lambda hole, size, largest: (hole[1] - hole[0], hole[0]), False),
    "best fit, two ends": (lambda hole, size, largest: (hole[1] - hole[0], -hole[1] if _high(size) else hole[0]), True),
    "worst fit": (lambda hole, size, largest: (hole[0] - hole[1], hole[0]), False),
}
"""With two ends, spans from 4 MiB on are laid at the high end of their hole."""


class Holes(Heap):
    def __init__(self, room_bytes: int, rate: Rate, two_ends: bool) -> None:
        self._holes = [(0, room_bytes)]
        self._rate, self._two_ends = rate, two_ends
        self._at: dict[int, Hole] = {}

    def alloc(self, number: int, size_bytes: int, kind: PoolKind) -> bool:
        size_bytes = -(-size_bytes // 4096) * 4096
        fits = [hole for hole in self._holes if hole[1] - hole[0] >= size_bytes]
        if not fits:
            return False
        largest = max(end - start for start, end in fits)
        start, end = min(fits, key=lambda hole: self._rate(hole, size_bytes, largest))
        at = end - size_bytes if self._two_ends and _high(size_bytes) else start
        index = self._holes.index((start, end))
        rest = ((start, at), (at + size_bytes, end))
        self._holes[index : index + 1] = [hole for hole in rest if hole[0] < hole[1]]
        self._at[number] = (at, at + size_bytes)
        return True

    def free(self, number: int) -> None:
        start, end = self._at.pop(number)
        low = high = bisect(self._holes, (start, end))
        if low and self._holes[low - 1][1] == start:
            low, start = low - 1, self._holes[low - 1][0]
        if high < len(self._holes) and self._holes[high][0] == end:
            high, end = high + 1, self._holes[high][1]
        self._holes[low:high] = [(start, end)]

    def pieces(self) -> tuple[int, int, int]:
        lengths = [end - start for start, end in self._holes]
        return sum(lengths), max(lengths, default=0), max(lengths, default=0)


def policies(options: argparse.Namespace) -> list[str]:
    """One row a policy: fragmentation and failures on each trace."""
    room_bytes = options.room_mib * MIB
    load_bytes = int(room_bytes * options.fill)
    traces: dict[str, Callable[[int], Iterator[Wish]]] = {
        order: partial(wishes, choose, load_bytes) for order, choose in ORDERS.items()
    }
    traces["by lifetime"] = partial(by_lifetime, load_bytes)
    traces["any size"] = partial(any_size, load_bytes)
    rows = [f"placement, room {options.room_mib} MiB in one piece, load {options.fill:.0%}, {len(SEEDS)} seeds"]
    rows.append(f"{'':36}" + "".join(f"{name:>20}" for name in traces))
    for name, (rate, two_ends) in POLICIES.items():
        cells = []
        for made in traces.values():
            results = [play(Holes(room_bytes, rate, two_ends), made(seed)) for seed in SEEDS]
            means = [statistics.mean(one.fragmentation) for one in results]
            error = statistics.stdev(means) / len(means) ** 0.5
            failures = statistics.mean(one.failures for one in results)
            cells.append(f"{statistics.mean(means):6.1%} +-{error:5.1%}{failures:5.1f}")
        rows.append(f"  {name:34}" + "".join(f"{cell:>20}" for cell in cells))
    return rows
