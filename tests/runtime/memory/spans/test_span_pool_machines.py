"""Each allocator against the model of pool_model.py, with its own plain rule for what has to fit."""

from runtime.memory.spans.arena import Arena
from runtime.memory.spans.classes import CLASSES, Classes
from runtime.memory.spans.extents import Extents
from runtime.memory.spans.placement import Placement
from runtime.memory.spans.ring import Ring
from runtime.memory.spans.span import AllocRequest, Lifetime
from runtime.memory.spans.upstream import Segments
from tests.runtime.memory.spans.pool_model import PoolMachine
from tests.steps import machine_settings

STEPS = machine_settings(runs=30, steps=40)
GRANULE = 256


def up(size: int, step: int) -> int:
    return -(-size // step) * step


class ArenaMachine(PoolMachine):
    longest = Lifetime.GRAPH

    def placement(self, segments: Segments) -> Placement:
        return Arena(segments)

    def must_fit(self, request: AllocRequest) -> bool:
        """A segment has room behind the last span of it that has not gone."""
        size = up(request.bytes, GRANULE)
        for segment, tensor in self.tensors.of.items():
            top = up(max((end for _, end in self.taken(segment)), default=0), GRANULE)
            if up(top, max(GRANULE, request.alignment)) + size <= len(tensor):
                return True
        return self.tensors.left_bytes >= size


class RingMachine(PoolMachine):
    longest = Lifetime.OP
    total_bytes = segment_bytes = 24_576

    def placement(self, segments: Segments) -> Placement:
        return Ring(segments)

    def must_fit(self, request: AllocRequest) -> bool:
        """From the oldest to the newest that has not gone is one piece of the circle; behind it, or at 0, is room."""
        size, align = up(request.bytes, GRANULE), max(GRANULE, request.alignment)
        spans = sorted([*(one.span for one in self.kept), *(span for span, _ in self.limbo)], key=lambda one: one[4])
        if not spans:
            return size <= self.segment_bytes
        tail, head = spans[0].offset, up(spans[-1].offset + spans[-1].bytes, GRANULE)
        if head > tail:
            return up(head, align) + size <= self.segment_bytes or size <= tail
        return up(head, align) + size <= tail


class ExtentsMachine(PoolMachine):
    longest = Lifetime.GLOBAL

    def placement(self, segments: Segments) -> Placement:
        return Extents(segments, high_from_bytes=8192)

    def must_fit(self, request: AllocRequest) -> bool:
        """Some gap between two neighbours is long enough."""
        size, align = up(request.bytes, GRANULE), max(GRANULE, request.alignment)
        for segment, tensor in self.tensors.of.items():
            at = 0
            for start, end in [*self.taken(segment), (len(tensor), 0)]:
                if up(at, align) + size <= start:
                    return True
                at = up(end, GRANULE)
        return self.can_grow(size)

    def is_compact(self) -> None:
        """At most what aligning leaves lies between neighbours, but for the one gap in the middle of each segment."""
        assert not self.limbo
        for segment, tensor in self.tensors.of.items():
            at, gaps = 0, []
            for start, end in [*self.taken(segment), (len(tensor), 0)]:
                gaps.append(start - at)
                at = up(end, GRANULE)
            assert len([gap for gap in gaps if gap >= 1024]) <= 1, f"segment {segment} has gaps {gaps}"


class ClassesMachine(PoolMachine):
    longest = Lifetime.GLOBAL
    total_bytes, segment_bytes = 4_000_000, 600_000

    def placement(self, segments: Segments) -> Placement:
        return Classes(Extents(segments, high_from_bytes=100_000))

    def must_fit(self, request: AllocRequest) -> bool:
        """A large span fits where no block can be in the way; a small one where there is room for one more run."""
        return self.can_grow(max(request.bytes + 256, 2 * CLASSES[-1]))


TestArena = ArenaMachine.TestCase
TestArena.settings = STEPS
TestRing = RingMachine.TestCase
TestRing.settings = STEPS
TestExtents = ExtentsMachine.TestCase
TestExtents.settings = STEPS
TestClasses = ClassesMachine.TestCase
TestClasses.settings = STEPS
