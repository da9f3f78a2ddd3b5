"""Ring: scratch of one operator at a time, taken and put back in about the same order.

    |....|bbbb|cc|dddd|......|      head and tail count bytes for ever; position = count mod capacity
         ^tail        ^head         a place is one piece: a place that does not fit before the end starts again at 0

A place that is put back out of order stays pinned until the places around it are put back. When the head would pass the
tail, the ring is full: the pool raises RingFull, and nothing is overwritten.
"""

from collections import deque

from runtime.memory.spans.failures import RingFull
from runtime.memory.spans.placement import GRANULE, Place, Placement, aligned
from runtime.memory.spans.span import Lifetime
from runtime.memory.spans.upstream import Segments


class _Range:
    """One place by its counts of bytes: [start, end)."""

    __slots__ = ("back", "end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end, self.back = start, end, False


class Ring(Placement):
    """A ring has one segment of `segments.segment_bytes` bytes, made at the first place."""

    longest = Lifetime.OP
    full = RingFull

    def __init__(self, segments: Segments) -> None:
        super().__init__(segments)
        self._segment: int | None = None
        self._capacity = segments.segment_bytes
        self._ranges: deque[_Range] = deque()
        self._at: dict[int, _Range] = {}
        self._tail = self._head = 0
        self._taken_bytes = 0

    def place(self, size_bytes: int, alignment: int) -> Place | None:
        size_bytes = aligned(size_bytes, GRANULE)
        if size_bytes > self._capacity:
            return None
        start = self._start(size_bytes, max(alignment, GRANULE))
        if start + size_bytes - self._tail > self._capacity:
            return None
        if self._segment is not None:
            self.hits += 1
        else:
            self._segment = self.segments.grow(self._capacity)
            if self._segment is None:
                return None
        taken = _Range(start, start + size_bytes)
        self._head = taken.end
        self._ranges.append(taken)
        self._at[start % self._capacity] = taken
        self._taken_bytes += size_bytes
        return Place(self._segment, start % self._capacity, size_bytes)

    def put_back(self, place: Place) -> None:
        """See Placement. The tail advances over the oldest places that are back, the head falls over the newest."""
        self._at.pop(place.offset).back = True
        self._taken_bytes -= place.bytes
        ranges = self._ranges
        while ranges and ranges[0].back:
            ranges.popleft()
        while ranges and ranges[-1].back:
            ranges.pop()
        self._tail, self._head = (ranges[0].start, ranges[-1].end) if ranges else (0, 0)

    def drop_empty(self) -> int:
        if self._segment is None or self._ranges:
            return 0
        segment, self._segment = self._segment, None
        return self.segments.drop(segment)

    @property
    def free_bytes(self) -> int:
        """Bytes outside of tail..head. They may lie in two pieces."""
        return 0 if self._segment is None else self._capacity - (self._head - self._tail)

    @property
    def largest_free_bytes(self) -> int:
        if self._segment is None:
            return 0
        lap_end = self._lap_end()
        return max(min(lap_end, self._tail + self._capacity) - self._head, self._tail + self._capacity - lap_end)

    @property
    def pinned_bytes(self) -> int:
        """Bytes inside of tail..head that are not taken: put back out of order, or skipped at the end of a lap."""
        return self._head - self._tail - self._taken_bytes

    def _start(self, size_bytes: int, alignment: int) -> int:
        position = aligned(self._head % self._capacity, alignment)
        if position + size_bytes <= self._capacity:
            return self._head - self._head % self._capacity + position
        return self._lap_end()

    def _lap_end(self) -> int:
        """The count at which the ring starts again at offset 0."""
        return (self._head // self._capacity + 1) * self._capacity
