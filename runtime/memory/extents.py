"""Extents: pieces of any size, merged again with their neighbours when they come back; the path for large spans.

    low |2|2|2|2| |2|..............................|  16 |  16 |  16 | high      one segment of 2 MB and 16 MB spans

Address-ordered first fit, small pieces from the low end and large ones from the high end: what is freed at one end is
wanted again at that end, so a 2 MB span never takes a bite out of a 16 MB hole, which is what best fit would do.
Freed pieces merge at once (boundary tags, Knuth 1968), so an empty segment is always one hole and can be dropped.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

from runtime.memory.failures import OutOfMemory
from runtime.memory.placement import Place, aligned
from runtime.memory.spans import Lifetime
from runtime.memory.upstream import Segments

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

    def better(self, place: Place, alignment: int, overlap: bool) -> Place | None:
        """See Placement: nearer to the end that its size belongs to."""
        alignment = max(alignment, GRANULE)
        found = next(self._fits(place.bytes, alignment), None)
        if found is not None and self.rank(found) < self.rank(place):
            self._carve(found)
            return found
        return self._slide(place, alignment) if overlap else None

    def rank(self, place: Place) -> tuple[int, int]:
        """See Placement: the distance from the end that its size belongs to, older segments first."""
        small = place.bytes < self._high_from_bytes
        return (place.segment, place.offset if small else self._segments.bytes_of[place.segment] - place.end)

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
        if size_bytes < self._high_from_bytes:
            for segment, start in self._holes:
                offset = aligned(start, alignment)
                if offset + size_bytes <= self._ends[segment, start]:
                    yield Place(segment, offset, size_bytes)
            return
        high: Place | None = None
        for segment, start in self._holes:
            if high is not None and high.segment != segment:
                break
            offset = (self._ends[segment, start] - size_bytes) & -alignment
            if offset >= start:
                high = Place(segment, offset, size_bytes)
        if high is not None:
            yield high

    def _slide(self, place: Place, alignment: int) -> Place | None:
        """Into the hole next to it, on the side of its end; the two may share bytes."""
        segment, offset, end = place.segment, place.offset, place.end
        if place.bytes < self._high_from_bytes:
            to = aligned(self._starts.get((segment, offset), offset), alignment)
        else:
            to = (self._ends.get((segment, end), end) - place.bytes) & -alignment
        moved = Place(segment, to, place.bytes)
        if self.rank(moved) >= self.rank(place):
            return None
        self.put_back(place)
        low = min(place, moved)
        self._carve(Place(segment, low.offset, abs(to - offset) + place.bytes))
        return moved

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
