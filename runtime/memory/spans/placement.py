"""A placement decides where spans lie in the segments of a pool. Arena, ring, extents and size classes are placements.

A placement knows places only. Handles, owners and limbo are kept by the pool (span_pool.py).
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

from runtime.memory.spans.failures import OutOfMemory
from runtime.memory.spans.span import Lifetime
from runtime.memory.spans.upstream import Segments

GRANULE = 256
"""Bytes. Sizes and offsets of places in an arena, a ring or extents are multiples of it; CUDA aligns to 256, too."""


class Place(NamedTuple):
    """A range of bytes of a segment that is taken."""

    segment: int
    offset: int
    bytes: int
    """Size with rounding."""
    run: int = 0
    """Run of a size class (classes.py) that the place is a block of; 0 for a place that is no block."""

    @property
    def end(self) -> int:
        """Offset of the first byte behind the place."""
        return self.offset + self.bytes


class Placement(ABC):
    """Takes places out of segments and puts them back. By default places never move: spans of an arena or a ring do not
    live long enough for that."""

    longest: Lifetime
    """The longest lifetime of a span in it."""
    full: type[OutOfMemory] = OutOfMemory
    """The error that the pool raises when there is no place."""
    hits = 0
    """Places that were found without a refill of a size class and without a new segment."""

    def __init__(self, segments: Segments) -> None:
        self.segments = segments

    @abstractmethod
    def place(self, size_bytes: int, alignment: int) -> Place | None:
        """Take a place of at least `size_bytes` bytes. Return None, and change nothing, when there is none."""

    @abstractmethod
    def put_back(self, place: Place) -> None:
        """Make the bytes of `place` available again."""

    @abstractmethod
    def drop_empty(self) -> int:
        """Give segments without a place back to the device. Return their bytes."""

    @property
    def total_bytes(self) -> int:
        """Bytes of all segments: taken + free + pinned."""
        return self.segments.total_bytes

    @property
    @abstractmethod
    def free_bytes(self) -> int:
        """Bytes that `place` can still hand out."""

    @property
    @abstractmethod
    def largest_free_bytes(self) -> int:
        """Bytes of the largest free piece."""

    @property
    @abstractmethod
    def pinned_bytes(self) -> int:
        """Bytes that are not taken and can't be handed out before a neighbour is put back."""

    def tidy(self) -> None:
        """Merge free bytes that are kept apart for speed."""
        return

    def plan_moves(self, bytes_max: float) -> None:
        """Plan where free bytes come together. Call it before `relocate` and `compact`, which moves at most
        `bytes_max` bytes."""
        return

    def relocate(self, place: Place, alignment: int) -> Place | None:
        """Take a place that shares no byte with `place` and leaves free bytes in larger pieces; None without one."""
        return None

    def compact(self, place: Place, alignment: int) -> Place | None:
        """Take a place for `place` that may overlap it: the caller copies as memmove does. None without one."""
        return None

    def rank(self, place: Place) -> tuple[int, int, int]:
        """Sort key of a place. `relocate` moves a span to a place of smaller rank."""
        return (0, 0, 0)

    def distance(self, place: Place) -> int:
        """Bytes between `place` and the gap that `compact` widens; 0 for a place that `compact` must not move."""
        return 0


def minus(place: Place, other: Place) -> Place:
    """Return the part of `place` that `other`, which is as long, does not cover."""
    if place.segment != other.segment or place.end <= other.offset or other.end <= place.offset:
        return place
    if place.offset < other.offset:
        return Place(place.segment, place.offset, other.offset - place.offset)
    return Place(place.segment, other.end, place.end - other.end)


def aligned(offset: int, alignment: int) -> int:
    """Round `offset` up to a multiple of `alignment`, a power of two."""
    return (offset + alignment - 1) & -alignment
