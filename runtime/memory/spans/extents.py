"""Extents: places of any size. A place that is put back merges with the free bytes beside it.

    low |2|2|2|2| |2|..............................|  16 |  16 |  16 | high      one segment of 2 MB and 16 MB spans

Address-ordered first fit: small places from the low end of a segment, large ones from the high end, so that a freed
place is reused by spans of about its size. As long as nothing moves, best fit is as good, and under random frees every
policy leaves a segment in pieces (benchmarks/allocators.py --only policies). But with the sizes kept apart a
defragmentation moves fewer bytes, and its effect lasts longer.

Holes merge at once (boundary tags, Knuth 1968), so an empty segment is always one hole and can be dropped.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

from runtime.memory.spans.compaction import Hole, SegmentPlan, plan_compaction
from runtime.memory.spans.placement import GRANULE, Place, Placement, aligned
from runtime.memory.spans.span import Lifetime
from runtime.memory.spans.upstream import Segments

HIGH_FROM_BYTES = 4 * 1024 * 1024
"""Places of this size and more are taken from the high end of a segment."""


class Extents(Placement):
    """`_holes` is sorted. `_ends` maps (segment, start) of a hole to its end, `_starts` maps (segment, end) to its
    start: the two boundary tags."""

    longest = Lifetime.GLOBAL

    def __init__(self, segments: Segments, high_from_bytes: int = HIGH_FROM_BYTES) -> None:
        super().__init__(segments)
        self._high_from_bytes = high_from_bytes
        self._holes: list[tuple[int, int]] = []
        self._ends: dict[tuple[int, int], int] = {}
        self._starts: dict[tuple[int, int], int] = {}
        self._free_bytes = 0
        self._plans: dict[int, SegmentPlan] = {}

    def place(self, size_bytes: int, alignment: int) -> Place | None:
        """See Placement. It tries older segments first, so that the newest ones become empty and can be dropped."""
        size_bytes, alignment = aligned(size_bytes, GRANULE), max(alignment, GRANULE)
        place = next(self._fits(size_bytes, alignment), None)
        if place is not None:
            self.hits += 1
        else:
            grown = self.segments.grow(aligned(size_bytes, 4096))
            if grown is None:
                return None
            self._add_hole(grown, 0, self.segments.bytes_of[grown])
            self._free_bytes += self.segments.bytes_of[grown]
            place = next(self._fits(size_bytes, alignment))
        self._carve(place)
        return place

    def put_back(self, place: Place) -> None:
        """See Placement. `place` may also be a part of a place that was taken."""
        segment, start, end = place.segment, place.offset, place.end
        self._free_bytes += place.bytes
        before = self._starts.get((segment, start))
        if before is not None:
            self._drop_hole(segment, before)
            start = before
        after = self._ends.get((segment, end))
        if after is not None:
            self._drop_hole(segment, end)
            end = after
        self._add_hole(segment, start, end)

    def plan_moves(self, bytes_max: float) -> None:
        holes: dict[int, list[Hole]] = {segment: [] for segment in self.segments.bytes_of}
        for segment, start in self._holes:
            holes[segment].append((start, self._ends[segment, start]))
        self._plans = plan_compaction(self.segments.bytes_of, holes, bytes_max)

    def relocate(self, place: Place, alignment: int) -> Place | None:
        """See Placement. The new place is nearer to the end for its size, or in a fuller segment."""
        own, alignment = self.rank(place), max(alignment, GRANULE)
        places = [self._place_in(segment, start, place.bytes, alignment) for segment, start in self._holes]
        better = [one for one in places if one is not None and self.rank(one) < own]
        found = min(better, key=self.rank, default=None)
        if found is not None:
            self._carve(found)
        return found

    def rank(self, place: Place) -> tuple[int, int, int]:
        """See Placement. The fuller the segment, and the nearer to the end for its size, the smaller the rank."""
        small = place.bytes < self._high_from_bytes
        distance = place.offset if small else self.segments.bytes_of[place.segment] - place.end
        return (*self._plans[place.segment].fill_rank, distance)

    def compact(self, place: Place, alignment: int) -> Place | None:
        """See Placement. The new place lies in the hole beside `place`, away from the gap."""
        segment, offset, end = place.segment, place.offset, place.end
        start, stop = self._starts.get((segment, offset), offset), self._ends.get((segment, end), end)
        if end <= self._plans[segment].gap[0]:
            to = aligned(start, max(alignment, GRANULE))
        else:
            to = (stop - place.bytes) & -max(alignment, GRANULE)
        moved = Place(segment, to, place.bytes)
        if self.distance(moved) <= self.distance(place):
            return None
        if abs(to - offset) < place.bytes:
            self.put_back(place)
            self._carve(Place(segment, min(to, offset), abs(to - offset) + place.bytes))
        else:
            self._carve(moved)
        return moved

    def distance(self, place: Place) -> int:
        plan = self._plans[place.segment]
        if place.offset < plan.reach[0] or plan.reach[1] < place.end:
            return 0
        return plan.gap[0] - place.offset if place.end <= plan.gap[0] else place.end - plan.gap[1]

    def drop_empty(self) -> int:
        sizes = self.segments.bytes_of
        empty = [segment for segment, size_bytes in sizes.items() if self._ends.get((segment, 0)) == size_bytes]
        for segment in empty:
            self._drop_hole(segment, 0)
        dropped = sum(self.segments.drop(segment) for segment in empty)
        self._free_bytes -= dropped
        return dropped

    @property
    def free_bytes(self) -> int:
        return self._free_bytes

    @property
    def largest_free_bytes(self) -> int:
        return max((end - start for (_, start), end in self._ends.items()), default=0)

    @property
    def pinned_bytes(self) -> int:
        """0: bytes that are skipped for alignment stay a hole."""
        return 0

    def _fits(self, size_bytes: int, alignment: int) -> Iterator[Place]:
        """Yield places that can be taken, best first."""
        high: Place | None = None
        for segment, start in self._holes:
            if high is not None and high.segment != segment:
                break
            found = self._place_in(segment, start, size_bytes, alignment)
            if found is not None and size_bytes < self._high_from_bytes:
                yield found
            elif found is not None:
                high = found
        if high is not None:
            yield high

    def _place_in(self, segment: int, start: int, size_bytes: int, alignment: int) -> Place | None:
        """Return the place that `size_bytes` bytes would take in the hole at `start`; None when it is too small."""
        end = self._ends[segment, start]
        offset = aligned(start, alignment) if size_bytes < self._high_from_bytes else (end - size_bytes) & -alignment
        return Place(segment, offset, size_bytes) if start <= offset <= end - size_bytes else None

    def _carve(self, place: Place) -> None:
        at = bisect_left(self._holes, (place.segment, place.offset + 1)) - 1
        start = self._holes[at][1]
        end = self._ends[place.segment, start]
        assert self._holes[at][0] == place.segment and place.end <= end, f"{place} is not inside one hole"
        self._drop_hole(place.segment, start)
        self._free_bytes -= place.bytes
        if start < place.offset:
            self._add_hole(place.segment, start, place.offset)
        if place.end < end:
            self._add_hole(place.segment, place.end, end)

    def _add_hole(self, segment: int, start: int, end: int) -> None:
        insort(self._holes, (segment, start))
        self._ends[segment, start] = end
        self._starts[segment, end] = start

    def _drop_hole(self, segment: int, start: int) -> None:
        del self._holes[bisect_left(self._holes, (segment, start))]
        del self._starts[segment, self._ends.pop((segment, start))]
