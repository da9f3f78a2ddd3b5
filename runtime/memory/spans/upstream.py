"""Segments: the large ranges of bytes that pools consist of. The device makes a tensor of each; pools count bytes."""

from typing import Protocol


class Upstream(Protocol):
    """Makes and releases segments. The pools of one device share it."""

    def reserve(self, pool: str, segment: int, size_bytes: int) -> bool:
        """Make a segment whose base is aligned to ALIGNMENT_MAX. Return False when there is no room for it."""
        ...

    def give_back(self, pool: str, segment: int, size_bytes: int) -> None:
        """Release a segment without spans."""
        ...


class Reserve:
    """An Upstream that counts up to `total_bytes` bytes and has no memory: for virtual time, tests and benchmarks."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.left_bytes = total_bytes

    def reserve(self, pool: str, segment: int, size_bytes: int) -> bool:
        if size_bytes > self.left_bytes:
            return False
        self.left_bytes -= size_bytes
        return True

    def give_back(self, pool: str, segment: int, size_bytes: int) -> None:
        self.left_bytes += size_bytes
        assert self.left_bytes <= self.total_bytes, f"{pool} gave back more than was reserved"


class Segments:
    """The segments of one pool. Ids are never used again, so a stale handle can't lead into another segment."""

    def __init__(self, upstream: Upstream, pool: str, segment_bytes: int, segments_max: int | None = None) -> None:
        if segment_bytes < 1 or (segments_max is not None and segments_max < 1):
            raise ValueError(f"pool {pool}: {segments_max} segments of {segment_bytes} bytes; give at least 1 of 1")
        self.segment_bytes = segment_bytes
        self.bytes_of: dict[int, int] = {}
        self._upstream, self._pool, self._segments_max = upstream, pool, segments_max
        self._next = 0

    def grow(self, bytes_min: int) -> int | None:
        """Make a segment and return its id. It has `segment_bytes` bytes, or `bytes_min` when these are more or the
        device has no room for a full segment. Return None at `segments_max`, or when the device has no room at all."""
        if self._segments_max is not None and len(self.bytes_of) >= self._segments_max:
            return None
        for size_bytes in (max(self.segment_bytes, bytes_min), bytes_min):
            if self._upstream.reserve(self._pool, self._next, size_bytes):
                segment, self._next = self._next, self._next + 1
                self.bytes_of[segment] = size_bytes
                return segment
        return None

    def drop(self, segment: int) -> int:
        """Give a segment without spans back to the device. Return its bytes."""
        size_bytes = self.bytes_of.pop(segment)
        self._upstream.give_back(self._pool, segment, size_bytes)
        return size_bytes

    @property
    def total_bytes(self) -> int:
        """Bytes of all segments that exist now."""
        return sum(self.bytes_of.values())
