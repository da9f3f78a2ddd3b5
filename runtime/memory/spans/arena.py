"""Arena: a cursor that only moves forward, for spans that live one step (activations) or one operator.

    segment 0   |aaaa|bb|cccccc|........|      place: at the cursor, or in the next segment with room
                               ^cursor         put back: the cursor falls to the end of the last place still taken

A reset of all spans costs the same as setting the cursor to 0. A reset of the operators alone lowers the cursor to the
end of the step's own spans. After a reset under a launch in flight, the cursor falls only when that launch is done, and
the next step lies in another segment. Two launches in flight need at most three segments of one step each.
"""

from runtime.memory.spans.placement import GRANULE, Place, Placement, aligned
from runtime.memory.spans.span import Lifetime
from runtime.memory.spans.upstream import Segments


class _Stack:
    """The places of one segment in order of offset: offset -> (end, whether it was put back)."""

    __slots__ = ("cursor", "taken")

    def __init__(self) -> None:
        self.cursor = 0
        self.taken: dict[int, tuple[int, bool]] = {}


class Arena(Placement):
    """Nothing moves in an arena, since a reset leaves no holes."""

    longest = Lifetime.GRAPH

    def __init__(self, segments: Segments) -> None:
        super().__init__(segments)
        self._stacks: dict[int, _Stack] = {}
        self._current: int | None = None
        self._taken_bytes = 0

    def place(self, size_bytes: int, alignment: int) -> Place | None:
        """See Placement. It tries the current segment, an empty one, any with room at its end, and a new one."""
        size_bytes, alignment = aligned(size_bytes, GRANULE), max(alignment, GRANULE)
        segment = self._current
        if segment is None or not self._fits(segment, size_bytes, alignment):
            segment = self._other_segment(size_bytes, alignment)
        if segment is not None:
            self.hits += 1
        else:
            segment = self.segments.grow(size_bytes)
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
        empty = [segment for segment, stack in self._stacks.items() if not stack.taken]
        for segment in empty:
            del self._stacks[segment]
        if self._current in empty:
            self._current = None
        return sum(self.segments.drop(segment) for segment in empty)

    @property
    def free_bytes(self) -> int:
        return sum(self._free_bytes_in(segment) for segment in self._stacks)

    @property
    def largest_free_bytes(self) -> int:
        return max((self._free_bytes_in(segment) for segment in self._stacks), default=0)

    @property
    def pinned_bytes(self) -> int:
        """Bytes below a cursor that are not taken: put back under a later place, or skipped for alignment."""
        return sum(stack.cursor for stack in self._stacks.values()) - self._taken_bytes

    def _other_segment(self, size_bytes: int, alignment: int) -> int | None:
        """Prefer an empty segment to one with room: a segment that is left alone becomes empty."""
        fitting = [segment for segment in self._stacks if self._fits(segment, size_bytes, alignment)]
        return next((one for one in fitting if not self._stacks[one].taken), fitting[0] if fitting else None)

    def _fits(self, segment: int, size_bytes: int, alignment: int) -> bool:
        return aligned(self._stacks[segment].cursor, alignment) + size_bytes <= self.segments.bytes_of[segment]

    def _free_bytes_in(self, segment: int) -> int:
        return self.segments.bytes_of[segment] - self._stacks[segment].cursor
