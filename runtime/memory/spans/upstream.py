"""Where segments come from: the device makes one tensor of each, memory only counts their bytes."""

from typing import Protocol


class Upstream(Protocol):
    """Makes and unmakes segments; shared by pools that live on one device."""

    def reserve(self, pool: str, segment: int, size_bytes: int) -> bool:
        """Make a segment, its base aligned to ALIGNMENT_MAX. False when there is no room for it."""
        ...

    def give_back(self, pool: str, segment: int, size_bytes: int) -> None:
        """Unmake one that holds nothing."""
        ...


class Reserve:
    """`total_bytes` of room that pools share, and nothing behind it: for virtual time, tests and benchmarks."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.left_bytes = total_bytes

    def reserve(self, pool: str, segment: int, size_bytes: int) -> bool:
        """See Upstream."""
        if size_bytes > self.left_bytes:
            return False
        self.left_bytes -= size_bytes
        return True

    def give_back(self, pool: str, segment: int, size_bytes: int) -> None:
        """See Upstream."""
        self.left_bytes += size_bytes
        assert self.left_bytes <= self.total_bytes, f"{pool} gave back more than was ever reserved"


class Segments:
    """The segments of one pool. Ids are never used again, so a handle into a dropped one can't fall into another."""

    def __init__(self, upstream: Upstream, pool: str, segment_bytes: int, segments_max: int | None = None) -> None:
        if segment_bytes < 1 or (segments_max is not None and segments_max < 1):
            raise ValueError(f"pool {pool}: {segments_max} segments of {segment_bytes} bytes; give at least 1 of 1")
        self.segment_bytes = segment_bytes
        self.bytes_of: dict[int, int] = {}
        self._upstream, self._pool, self._segments_max = upstream, pool, segments_max
        self._next = 0

    def grow(self, bytes_min: int) -> int | None:
        """Make a segment of `segment_bytes`, or of `bytes_min` when that is more or the device has no room for a
        full one. Returns its id; None when the device has not even that, or the pool has `segments_max` already."""
        if self._segments_max is not None and len(self.bytes_of) >= self._segments_max:
            return None
        for size_bytes in (max(self.segment_bytes, bytes_min), bytes_min):
            if self._upstream.reserve(self._pool, self._next, size_bytes):
                segment, self._next = self._next, self._next + 1
                self.bytes_of[segment] = size_bytes
                return segment
        return None

    def drop(self, segment: int) -> int:
        """Give one back that holds nothing; its bytes."""
        size_bytes = self.bytes_of.pop(segment)
        self._upstream.give_back(self._pool, segment, size_bytes)
        return size_bytes

    @property
    def total_bytes(self) -> int:
        """Of all segments that there are now."""
        return sum(self.bytes_of.values())
