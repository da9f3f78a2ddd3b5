"""Extents: pieces of any size, merged again with their neighbours when they come back; the path for large spans.

    low |2|2|2|2| |2|..............................|  16 |  16 |  16 | high      one segment of 2 MB and 16 MB spans

Address-ordered first fit, small pieces from the low end and large ones from the high end: what is freed at one end is
wanted again at that end. While nothing moves, best fit does as well, and no policy keeps random frees from cutting up
a segment (benchmarks/allocators.py --only policies); but where sizes keep apart a defrag has less to move, and what it
has won lasts longer.

Freed pieces merge at once (boundary tags, Knuth 1968), so an empty segment is always one hole and can be dropped.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

from runtime.memory.spans.compaction import Hole, Plan, plan
from runtime.memory.spans.failures import OutOfMemory
from runtime.memory.spans.placement import Place, aligned
from runtime.memory.spans.span import Lifetime
from runtime.memory.spans.upstream import Segments

GRANULE = 256
HIGH_FROM_BYTES = 4 * 1024 * 1024
"""Where the seed's own `align_size` draws the line between its two sizes."""


class Extents:
    """See Placement. A hole is known by (segment, offset); `_ends` and `_starts` are its two boundary tags."""

    full = OutOfMemory

    def __init__(
        self, segments: Segments, high_from_bytes: int = HIGH_FROM_BYTES, longest: Lifetime = Lifetime.GLOBAL
    ) -> None:
        self.longest = longest
        self.hits = 0
        self._segments = segments
        self._high_from_bytes = high_from_bytes
        self._holes: list[tuple[int, int]] = []
        self._ends: dict[tuple[int, int], int] = {}
        self._starts: dict[tuple[int, int], int] = {}
        self._free_bytes = 0
        self._plans: dict[int, Plan] = {}

    def place(self, size_bytes: int, alignment: int) -> Place | None:
        """See Placement. Older segments first: the newest can then empty and be given back."""
        size_bytes, alignment = aligned(size_bytes, GRANULE), max(alignment, GRANULE)
        place = next(self._fits(size_bytes, alignment), None)
        if place is not None:
            self.hits += 1
        else:
            grown = self._segments.grow(aligned(size_bytes, 4096))
            if grown is None:
                return None
            self._add_hole(grown, 0, self._segments.bytes_of[grown])
            self._free_bytes += self._segments.bytes_of[grown]
            place = next(self._fits(size_bytes, alignment))
        self._carve(place)
        return place

    def put_back(self, place: Place) -> None:
        """See Placement. Any part of what was taken may come back by itself."""
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
        """See Placement."""
        holes: dict[int, list[Hole]] = {segment: [] for segment in self._segments.bytes_of}
        for segment, start in self._holes:
            holes[segment].append((start, self._ends[segment, start]))
        self._plans = plan(self._segments.bytes_of, holes, bytes_max)

    def relocate(self, place: Place, alignment: int) -> Place | None:
        """See Placement: nearer to the end that its size belongs to, or in a fuller segment."""
        own, best, found = self.rank(place), None, None
        for segment, start in self._holes:
            spot = self._spot(segment, start, place.bytes, max(alignment, GRANULE))
            if spot is not None and self.rank(spot) < own and (best is None or self.rank(spot) < best):
                best, found = self.rank(spot), spot
        if found is not None:
            self._carve(found)
        return found

    def rank(self, place: Place) -> tuple[int, int, int]:
        """See Placement: fuller segments first, and in each the distance from the end that its size belongs to."""
        small = place.bytes < self._high_from_bytes
        distance = place.offset if small else self._segments.bytes_of[place.segment] - place.end
        return (*self._plans[place.segment].fill_rank, distance)

    def compact(self, place: Place, alignment: int) -> Place | None:
        """See Placement: into the hole next to it, away from the gap; the two may share bytes."""
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
        """See Placement."""
        one = self._plans[place.segment]
        if place.offset < one.reach[0] or one.reach[1] < place.end:
            return 0
        return one.gap[0] - place.offset if place.end <= one.gap[0] else place.end - one.gap[1]

    def tidy(self) -> None:
        """Nothing is kept apart: pieces merge as they come back."""

    def drop_empty(self) -> int:
        """See Placement."""
        sizes = self._segments.bytes_of
        empty = [segment for segment, size_bytes in sizes.items() if self._ends.get((segment, 0)) == size_bytes]
        for segment in empty:
            self._drop_hole(segment, 0)
        dropped = sum(self._segments.drop(segment) for segment in empty)
        self._free_bytes -= dropped
        return dropped

    @property
    def total_bytes(self) -> int:
        """See Placement."""
        return self._segments.total_bytes

    @property
    def free_bytes(self) -> int:
        """See Placement."""
        return self._free_bytes

    @property
    def largest_free_bytes(self) -> int:
        """See Placement."""
        return max((end - start for (_, start), end in self._ends.items()), default=0)

    @property
    def pinned_bytes(self) -> int:
        """None ever: what is skipped to align stays a hole."""
        return 0

    def _fits(self, size_bytes: int, alignment: int) -> Iterator[Place]:
        """Places that could be taken, best first."""
        high: Place | None = None
        for segment, start in self._holes:
            if high is not None and high.segment != segment:
                break
            spot = self._spot(segment, start, size_bytes, alignment)
            if spot is not None and size_bytes < self._high_from_bytes:
                yield spot
            elif spot is not None:
                high = spot
        if high is not None:
            yield high

    def _spot(self, segment: int, start: int, size_bytes: int, alignment: int) -> Place | None:
        """Where in that hole it would lie."""
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
