"""Where a defrag brings the free bytes of a segment together, and how far out from there its budget reaches.

    |AA.BBCC.DD....|      the largest hole is the gap; to slide DD away from it wins 1 byte for 2, all three 2 for 6
               ^gap

Known from the holes alone: what lies between two of them is what would have to slide.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Hole = tuple[int, int]
"""(start, end) in a segment."""


class Plan(NamedTuple):
    """What a defrag does with one segment."""

    fill_rank: tuple[int, int]
    """The fuller a segment the smaller, so that spans leave the emptier ones for it."""
    gap: Hole
    """All other holes are driven into it; where there is no hole, empty and at the end."""
    reach: Hole
    """Between these, spans slide away from the gap."""


def plan(sizes: Mapping[int, int], holes: Mapping[int, Sequence[Hole]], bytes_max: float) -> dict[int, Plan]:
    """Plan each segment of `sizes`, whose `holes` are in order. Slides may take `bytes_max` in all, and the
    segment with the largest hole spends first."""
    plans = {}
    for segment in sorted(sizes, key=lambda one: max(map(_length, holes[one]), default=0), reverse=True):
        whole = sizes[segment]
        gap = max(holes[segment], key=_length, default=(whole, whole))
        bytes_max, reach = _reach(holes[segment], bytes_max)
        plans[segment] = Plan((sum(map(_length, holes[segment])) - whole, segment), gap, reach)
    return plans


def _reach(holes: Sequence[Hole], left_bytes: float) -> tuple[float, Hole]:
    """Outwards from the largest hole, always over the neighbour that costs the fewest bytes for each byte won; and what
    is left of the budget then."""
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
