"""Set operations on time intervals, which are (start, end) pairs in any one unit."""

import itertools
import math
from collections.abc import Iterable

Interval = tuple[float, float]


def without(intervals: Iterable[Interval], holes: Iterable[Interval]) -> list[Interval]:
    """The parts of `intervals` that lie in none of the holes."""
    edges = [-math.inf, *itertools.chain.from_iterable(merged(holes)), math.inf]
    return within(intervals, zip(edges[::2], edges[1::2], strict=True))


def within(intervals: Iterable[Interval], others: Iterable[Interval]) -> list[Interval]:
    """The parts of `intervals` that lie in one of the others."""
    left, right, found = merged(intervals)[::-1], merged(others)[::-1], []
    while left and right:
        start, end = max(left[-1][0], right[-1][0]), min(left[-1][1], right[-1][1])
        if start < end:
            found.append((start, end))
        (left if left[-1][1] < right[-1][1] else right).pop()  # the interval that ends first overlaps nothing later
    return found


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The union of the intervals: sorted, without overlaps."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def length(intervals: Iterable[Interval]) -> float:
    """The length of the union of the intervals."""
    return sum(end - start for start, end in merged(intervals))
