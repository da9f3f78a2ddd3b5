"""The plan of a defragmentation: where the free bytes of each segment come together, and which spans may slide.

    |AA.BBCC.DD....|      the largest hole is the gap; sliding DD (2 bytes) away from it widens it by 1 byte,
               ^gap       sliding all three spans (6 bytes) widens it by 2

A plan needs the holes only: the bytes between two holes are the bytes that would have to slide.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Hole = tuple[int, int]
"""(start, end) in a segment, in bytes."""


class SegmentPlan(NamedTuple):
    """The plan for one segment."""

    fill_rank: tuple[int, int]
    """Sort key: a fuller segment has a smaller rank. Spans leave segments of larger rank."""
    gap: Hole
    """The hole that grows. A segment without a hole has an empty gap at its end."""
    reach: Hole
    """Spans inside of this range slide away from the gap."""


def plan_compaction(
    sizes: Mapping[int, int], holes: Mapping[int, Sequence[Hole]], bytes_max: float
) -> dict[int, SegmentPlan]:
    """Plan each segment of `sizes` (segment -> bytes); `holes` of a segment are sorted. All slides together move at
    most `bytes_max` bytes; the segment with the largest hole uses this budget first."""
    plans = {}
    for segment in sorted(sizes, key=lambda one: max(map(_length, holes[one]), default=0), reverse=True):
        size_bytes = sizes[segment]
        gap = max(holes[segment], key=_length, default=(size_bytes, size_bytes))
        bytes_max, reach = _reach(holes[segment], bytes_max)
        plans[segment] = SegmentPlan((sum(map(_length, holes[segment])) - size_bytes, segment), gap, reach)
    return plans


def _reach(holes: Sequence[Hole], left_bytes: float) -> tuple[float, Hole]:
    """Return the rest of the budget and the reach. The reach grows outwards from the largest hole, each time towards
    the neighbouring hole with the fewest moved bytes for each byte that the gap gains."""
    if not holes:
        return left_bytes, (0, 0)
    low = high = max(range(len(holes)), key=lambda at: _length(holes[at]))
    while True:
        sides = []
        if low > 0:
            sides.append((holes[low][0] - holes[low - 1][1], holes[low - 1], -1))
        if high + 1 < len(holes):
            sides.append((holes[high + 1][0] - holes[high][1], holes[high + 1], 1))
        sides = [side for side in sides if side[0] <= left_bytes]
        if not sides:
            return left_bytes, (holes[low][0], holes[high][1])
        cost_bytes, _, side = min(sides, key=lambda side: side[0] / _length(side[1]))
        left_bytes -= cost_bytes
        low, high = (low - 1, high) if side < 0 else (low, high + 1)


def _length(hole: Hole) -> int:
    return hole[1] - hole[0]
