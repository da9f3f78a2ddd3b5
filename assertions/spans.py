"""Stretches of time as (start, end) pairs, in any one unit: what is left of some when others are taken out."""

import itertools
import math
from collections.abc import Iterable

Span = tuple[float, float]


def without(spans: Iterable[Span], holes: Iterable[Span]) -> list[Span]:
    """The parts of `spans` that lie in no hole."""
    edges = [-math.inf, *itertools.chain.from_iterable(merged(holes)), math.inf]
    return within(spans, zip(edges[::2], edges[1::2], strict=True))


def within(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """The parts of `spans` that lie in one of the others."""
    left, right, found = merged(spans)[::-1], merged(others)[::-1], []
    while left and right:
        start, end = max(left[-1][0], right[-1][0]), min(left[-1][1], right[-1][1])
        if start < end:
            found.append((start, end))
        (left if left[-1][1] < right[-1][1] else right).pop()  # what ends first meets nothing more
    return found


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same time in order, no moment twice."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def length(spans: Iterable[Span]) -> float:
    """All of it, overlaps once."""
    return sum(end - start for start, end in merged(spans))
