"""Stretches of time as (start, end) pairs, in any one unit: what is left of some when others are taken out."""

import itertools
import math
from collections.abc import Iterable

Interval = tuple[float, float]


def without(intervals: Iterable[Interval], holes: Iterable[Interval]) -> list[Interval]:
    """The parts of `spans` that lie in no hole."""
    edges = [-math.inf, *itertools.chain.from_iterable(merged(holes)), math.inf]
    return within(intervals, zip(edges[::2], edges[1::2], strict=True))


def within(intervals: Iterable[Interval], others: Iterable[Interval]) -> list[Interval]:
    """The parts of `spans` that lie in one of the others."""
    left, right, found = merged(intervals)[::-1], merged(others)[::-1], []
    while left and right:
        start, end = max(left[-1][0], right[-1][0]), min(left[-1][1], right[-1][1])
        if start < end:
            found.append((start, end))
        (left if left[-1][1] < right[-1][1] else right).pop()  # what ends first meets nothing more
    return found


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time in order, no moment twice."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def length(intervals: Iterable[Interval]) -> float:
    """All of it, overlaps once."""
    return sum(end - start for start, end in merged(intervals))
