"""A placement policy chooses where spans lie: the part in which arena, ring, extents and size classes differ.

A placement knows places only. Holders, limbo and stale handles are kept by the pool (span_pool.py).
"""

from typing import NamedTuple, Protocol

from runtime.memory.spans.failures import OutOfMemory
from runtime.memory.spans.span import Lifetime


class Place(NamedTuple):
    """A range of a segment that is taken; `bytes` is what it takes up, rounding included."""

    segment: int
    offset: int
    bytes: int
    home: int = 0
    """What the placement itself needs to know it again (a run of a size class); 0: nothing."""

    @property
    def end(self) -> int:
        """Offset behind its last byte."""
        return self.offset + self.bytes


class Placement(Protocol):
    """Takes places out of segments and puts them back."""

    @property
    def longest(self) -> Lifetime:
        """The longest lifetime that may be placed here."""
        ...

    @property
    def full(self) -> type[OutOfMemory]:
        """The error that the pool raises when there is no place."""
        ...

    @property
    def hits(self) -> int:
        """Places found without a refill and without a new segment."""
        ...

    def place(self, size_bytes: int, alignment: int) -> Place | None:
        """Take a place of at least `size_bytes`. Return None, and change nothing, when there is none."""
        ...

    def put_back(self, place: Place) -> None:
        """The place is free for reuse from now on."""
        ...

    def plan_moves(self, bytes_max: float) -> None:
        """Plan where free bytes come together, before `relocate` and `compact`. Slides take at most `bytes_max`."""
        ...

    def relocate(self, place: Place, alignment: int) -> Place | None:
        """Take a place apart from `place` that leaves the free bytes in larger pieces; None when there is none."""
        ...

    def compact(self, place: Place, alignment: int) -> Place | None:
        """As `relocate`, but it may share bytes with `place`, which only a copy like memmove survives."""
        ...

    def rank(self, place: Place) -> tuple[int, int, int]:
        """Order of places for `relocate`: it moves a span to a place of smaller rank."""
        ...

    def distance(self, place: Place) -> int:
        """Bytes between `place` and the gap that `compact` widens; 0 when it must not slide."""
        ...

    def tidy(self) -> None:
        """Merge what was kept apart for speed."""
        ...

    def drop_empty(self) -> int:
        """Give segments that hold nothing back to where they came from; their bytes."""
        ...

    @property
    def total_bytes(self) -> int:
        """Of all segments."""
        ...

    @property
    def free_bytes(self) -> int:
        """That `place` may still hand out."""
        ...

    @property
    def largest_free_bytes(self) -> int:
        """The longest single piece of them."""
        ...

    @property
    def pinned_bytes(self) -> int:
        """Put back or never used, and not to be handed out before a neighbour goes: total = taken + free + pinned."""
        ...


class Fixed:
    """The part of a Placement whose places never move: what is in it does not live long enough."""

    def plan_moves(self, bytes_max: float) -> None:
        """Nothing."""

    def relocate(self, place: Place, alignment: int) -> Place | None:
        """None."""
        return None

    def compact(self, place: Place, alignment: int) -> Place | None:
        """None."""
        return None

    def rank(self, place: Place) -> tuple[int, int, int]:
        """All alike."""
        return (0, 0, 0)

    def distance(self, place: Place) -> int:
        """0."""
        return 0

    def tidy(self) -> None:
        """Nothing is kept apart."""


def minus(place: Place, other: Place) -> Place:
    """The part of `place` that `other`, of the same length, does not cover; all of it when they don't meet."""
    if place.segment != other.segment or place.end <= other.offset or other.end <= place.offset:
        return place
    if place.offset < other.offset:
        return Place(place.segment, place.offset, other.offset - place.offset)
    return Place(place.segment, other.end, place.end - other.end)


def aligned(offset: int, alignment: int) -> int:
    """`offset` or the next multiple of `alignment`, a power of two."""
    return (offset + alignment - 1) & -alignment
