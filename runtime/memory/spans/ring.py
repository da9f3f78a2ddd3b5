"""Ring: scratch for one operator at a time, taken and given back in about the same order.

    |....|bbbb|cc|dddd|......|      head runs ahead of tail, both count on for ever; position = count mod capacity
         ^tail        ^head         a place is one piece: what does not fit before the end starts again at 0

A place put back out of order is pinned until those around it have gone too. A ring that has come round to its own
tail is full: RingFull, and nothing is overwritten.
"""

from collections import deque

from runtime.memory.spans.failures import RingFull
from runtime.memory.spans.placement import Fixed, Place, aligned
from runtime.memory.spans.span import Lifetime
from runtime.memory.spans.upstream import Segments

GRANULE = 256


class _Lap:
    """One place on the endless line that the ring is wound from."""

    __slots__ = ("back", "end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end, self.back = start, end, False


class Ring(Fixed):
    """See Placement. One segment, made when first needed, of `segments.segment_bytes`."""

    full = RingFull

    def __init__(self, segments: Segments, longest: Lifetime = Lifetime.OP) -> None:
        self.longest = longest
        self.hits = 0
        self._segments = segments
        self._segment: int | None = None
        self._capacity = segments.segment_bytes
        self._line: deque[_Lap] = deque()
        self._at: dict[int, _Lap] = {}
        self._tail = self._head = 0
        self._taken_bytes = 0

    def place(self, size_bytes: int, alignment: int) -> Place | None:
        """See Placement."""
        size_bytes = aligned(size_bytes, GRANULE)
        if size_bytes > self._capacity:
            return None
        start = self._start(size_bytes, max(alignment, GRANULE))
        if start + size_bytes - self._tail > self._capacity:
            return None
        if self._segment is not None:
            self.hits += 1
        else:
            self._segment = self._segments.grow(self._capacity)
            if self._segment is None:
                return None
        lap = _Lap(start, start + size_bytes)
        self._head = lap.end
        self._line.append(lap)
        self._at[start % self._capacity] = lap
        self._taken_bytes += size_bytes
        return Place(self._segment, start % self._capacity, size_bytes)

    def put_back(self, place: Place) -> None:
        """See Placement. Both ends follow: tail past the oldest, head back over the newest."""
        self._at.pop(place.offset).back = True
        self._taken_bytes -= place.bytes
        line = self._line
        while line and line[0].back:
            line.popleft()
        while line and line[-1].back:
            line.pop()
        self._tail, self._head = (line[0].start, line[-1].end) if line else (0, 0)

    def drop_empty(self) -> int:
        """See Placement."""
        if self._segment is None or self._line:
            return 0
        segment, self._segment = self._segment, None
        return self._segments.drop(segment)

    @property
    def total_bytes(self) -> int:
        """See Placement."""
        return self._segments.total_bytes

    @property
    def free_bytes(self) -> int:
        """Outside of tail..head; the two ends of it may not be one piece."""
        return 0 if self._segment is None else self._capacity - (self._head - self._tail)

    @property
    def largest_free_bytes(self) -> int:
        """See Placement."""
        if self._segment is None:
            return 0
        lap_end = self._lap_end()
        return max(min(lap_end, self._tail + self._capacity) - self._head, self._tail + self._capacity - lap_end)

    @property
    def pinned_bytes(self) -> int:
        """Inside of tail..head and not taken: put back out of order, or skipped at the end of a lap."""
        return self._head - self._tail - self._taken_bytes

    def _start(self, size_bytes: int, alignment: int) -> int:
        position = aligned(self._head % self._capacity, alignment)
        if position + size_bytes <= self._capacity:
            return self._head - self._head % self._capacity + position
        return self._lap_end()

    def _lap_end(self) -> int:
        return (self._head // self._capacity + 1) * self._capacity
