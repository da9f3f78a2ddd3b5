"""Whole segments: a large span gets a segment of its own size, so it leaves no hole between others when it goes.

    one segment each   |16|  |16|  |2|        kept when its span is back, for the next one of that size
    shared             |x|xx| |xxx|x|..|      smaller spans, as the placement below lays them

A device maps pages: what is given back to it is room in one piece, whatever lay beside it. So segments that are kept
are given back before anything is refused, the longest unused first. The price is a call of the device for each size
that is not kept; the line is torch's smallest segment. Only spans that fill their pages get one: the rest of a page
would be lost to all others.
"""

from runtime.memory.spans.failures import OutOfMemory
from runtime.memory.spans.placement import Place, Placement, aligned
from runtime.memory.spans.upstream import Segments

FROM_BYTES = 2 * 1024 * 1024
WASTE_MAX = 1 / 8
"""Of a span, that rounding up to pages may add; what adds more is laid with the others."""


class Whole:
    """See Placement. `below` lays what is smaller, in segments from the same `segments`."""

    full = OutOfMemory

    def __init__(
        self, segments: Segments, below: Placement, from_bytes: int = FROM_BYTES, page_bytes: int = 4096
    ) -> None:
        self.longest = below.longest
        self._hits = 0
        self._segments, self._below = segments, below
        self._from_bytes, self._page_bytes = from_bytes, page_bytes
        self._taken: set[int] = set()
        self._kept: dict[int, int] = {}
        """Segment -> bytes, the longest unused first."""
        self._kept_bytes = 0

    @property
    def hits(self) -> int:
        """See Placement."""
        return self._hits + self._below.hits

    def place(self, size_bytes: int, alignment: int) -> Place | None:
        """See Placement. Where no whole segment can be had, a hole among the others may do."""
        whole_bytes = aligned(size_bytes, self._page_bytes)
        if size_bytes >= self._from_bytes and whole_bytes - size_bytes <= size_bytes * WASTE_MAX:
            segment = self._whole(whole_bytes)
            if segment is not None:
                self._taken.add(segment)
                return Place(segment, 0, whole_bytes)
        while True:
            place = self._below.place(size_bytes, alignment)
            if place is not None or not self._give_back():
                return place

    def put_back(self, place: Place) -> None:
        """See Placement."""
        if place.segment not in self._taken:
            self._below.put_back(place)
            return
        self._taken.remove(place.segment)
        self._kept[place.segment] = place.bytes
        self._kept_bytes += place.bytes

    def settle(self, bytes_max: float) -> None:
        """See Placement."""
        self._below.settle(bytes_max)

    def better(self, place: Place, alignment: int) -> Place | None:
        """See Placement. A whole segment stays: there is nothing beside it."""
        return None if place.segment in self._taken else self._below.better(place, alignment)

    def slide(self, place: Place, alignment: int) -> Place | None:
        """See Placement."""
        return self._below.slide(place, alignment)

    def rank(self, place: Place) -> tuple[int, int, int]:
        """See Placement."""
        return self._below.rank(place)

    def distance(self, place: Place) -> int:
        """See Placement. Where there is no hole nothing slides, so not in a whole segment."""
        return self._below.distance(place)

    def tidy(self) -> None:
        """See Placement."""
        self._below.tidy()

    def drop_empty(self) -> int:
        """See Placement."""
        kept_bytes = self._kept_bytes
        for segment in self._kept:
            self._segments.drop(segment)
        self._kept.clear()
        self._kept_bytes = 0
        return kept_bytes + self._below.drop_empty()

    @property
    def total_bytes(self) -> int:
        """See Placement."""
        return self._segments.total_bytes

    @property
    def free_bytes(self) -> int:
        """See Placement."""
        return self._kept_bytes + self._below.free_bytes

    @property
    def largest_free_bytes(self) -> int:
        """See Placement. Of the kept segments the largest alone, though given back they are one piece."""
        return max(self._below.largest_free_bytes, *self._kept.values(), 0)

    @property
    def pinned_bytes(self) -> int:
        """See Placement."""
        return self._below.pinned_bytes

    def _whole(self, whole_bytes: int) -> int | None:
        kept = next((segment for segment, size_bytes in self._kept.items() if size_bytes == whole_bytes), None)
        if kept is not None:
            self._hits += 1
            self._kept_bytes -= self._kept.pop(kept)
            return kept
        while True:
            segment = self._segments.grow(whole_bytes, exact=True)
            if segment is not None or not self._give_back():
                return segment

    def _give_back(self) -> int:
        """One kept segment, or else what is empty below; the bytes."""
        if not self._kept:
            return self._below.drop_empty()
        segment = next(iter(self._kept))
        self._kept_bytes -= self._kept.pop(segment)
        return self._segments.drop(segment)
