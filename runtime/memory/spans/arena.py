"""Arena: a pointer that only moves on; for what lives one step (activations) or one operator.

    segment 0   |aaaa|bb|cccccc|........|      place: at the cursor, or in the next segment that has room
                               ^cursor         put back: the cursor falls to the end of the last place still taken

So a reset of everything costs the same as the seed's `current = base`; a reset of the operators alone falls back to
the mark where they began; and a reset under a launch in flight only falls when that launch is done, while the next
step is laid out in another segment. Two launches in flight need three segments of one step each, at most.
"""

from runtime.memory.spans.failures import OutOfMemory
from runtime.memory.spans.placement import Fixed, Place, aligned
from runtime.memory.spans.span import Lifetime
from runtime.memory.spans.upstream import Segments

GRANULE = 256
"""Bytes; the seed's alignment, and what CUDA gives."""


class _Stack:
    """Places of one segment in order of offset: offset -> (end, put back)."""

    __slots__ = ("cursor", "taken")

    def __init__(self) -> None:
        self.cursor = 0
        self.taken: dict[int, tuple[int, bool]] = {}


class Arena(Fixed):
    """See Placement. Nothing moves here and nothing need to: a reset leaves no holes."""

    full = OutOfMemory

    def __init__(self, segments: Segments, longest: Lifetime = Lifetime.GRAPH) -> None:
        self.longest = longest
        self.hits = 0
        self._segments = segments
        self._stacks: dict[int, _Stack] = {}
        self._current: int | None = None
        self._taken_bytes = 0

    def place(self, size_bytes: int, alignment: int) -> Place | None:
        """See Placement. Order: the segment in use, an empty one, any with room at its end, a new one."""
        size_bytes, alignment = aligned(size_bytes, GRANULE), max(alignment, GRANULE)
        segment = self._current
        if segment is None or not self._fits(segment, size_bytes, alignment):
            segment = self._other(size_bytes, alignment)
        if segment is not None:
            self.hits += 1
        else:
            segment = self._segments.grow(size_bytes)
            if segment is None:
                return None
            self._stacks[segment] = _Stack()
        self._current = segment
        stack = self._stacks[segment]
        offset = aligned(stack.cursor, alignment)
        stack.cursor = offset + size_bytes
        stack.taken[offset] = (stack.cursor, False)
        self._taken_bytes += size_bytes
        return Place(segment, offset, size_bytes)

    def put_back(self, place: Place) -> None:
        """See Placement."""
        stack = self._stacks[place.segment]
        stack.taken[place.offset] = (place.end, True)
        self._taken_bytes -= place.bytes
        while stack.taken:
            offset, (end, back) = stack.taken.popitem()
            if not back:
                stack.taken[offset] = (end, back)
                stack.cursor = end
                return
        stack.cursor = 0

    def drop_empty(self) -> int:
        """See Placement."""
        empty = [segment for segment, stack in self._stacks.items() if not stack.taken]
        for segment in empty:
            del self._stacks[segment]
        if self._current in empty:
            self._current = None
        return sum(self._segments.drop(segment) for segment in empty)

    @property
    def total_bytes(self) -> int:
        """See Placement."""
        return self._segments.total_bytes

    @property
    def free_bytes(self) -> int:
        """See Placement."""
        return sum(self._room(segment) for segment in self._stacks)

    @property
    def largest_free_bytes(self) -> int:
        """See Placement."""
        return max((self._room(segment) for segment in self._stacks), default=0)

    @property
    def pinned_bytes(self) -> int:
        """Below a cursor and not taken: put back under a later place, or skipped to align."""
        return sum(stack.cursor for stack in self._stacks.values()) - self._taken_bytes

    def _other(self, size_bytes: int, alignment: int) -> int | None:
        """An empty segment rather than one with room: one that is left alone comes back whole."""
        fitting = [segment for segment in self._stacks if self._fits(segment, size_bytes, alignment)]
        return next((one for one in fitting if not self._stacks[one].taken), fitting[0] if fitting else None)

    def _fits(self, segment: int, size_bytes: int, alignment: int) -> bool:
        return aligned(self._stacks[segment].cursor, alignment) + size_bytes <= self._segments.bytes_of[segment]

    def _room(self, segment: int) -> int:
        return self._segments.bytes_of[segment] - self._stacks[segment].cursor
