"""Host memory of a simulated device. It stores real bytes, so that an overwritten KV is really lost. No torch.

block --out--> [KV of all its blocks | tags of all its blocks] --in--> other blocks
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from runtime.core.work import Copy, Way, Words
from runtime.memory.kv.tags import TagPlane
from runtime.memory.spans.span import Span

Bytes = npt.NDArray[np.uint8]


class HostBytes:
    """Implements `runtime.memory.spans.upstream.Upstream` with numpy arrays of up to `room_bytes` bytes in all."""

    def __init__(self, room_bytes: int) -> None:
        self.left_bytes = room_bytes
        self._arrays: dict[tuple[str, int], Bytes] = {}

    def reserve(self, pool: str, segment: int, size_bytes: int) -> bool:
        """See Upstream."""
        if size_bytes > self.left_bytes:
            return False
        self.left_bytes -= size_bytes
        self._arrays[pool, segment] = np.zeros(size_bytes, np.uint8)
        return True

    def give_back(self, pool: str, segment: int, size_bytes: int) -> None:
        """See Upstream."""
        self.left_bytes += size_bytes
        del self._arrays[pool, segment]

    def words(self, pool: str, segment: int, offset: int, count: int) -> Words:
        """Return a writable view [count] of uint64 at `offset` (bytes) of a segment."""
        found: Words = self._arrays[pool, segment][offset : offset + 8 * count].view(np.uint64)
        assert len(found) == count, f"{count} words at {offset} reach past segment {segment} of {pool}"
        return found

    def move(self, old: Span, new: Span, size_bytes: int) -> None:
        """Copy `size_bytes` from `old` to `new` for defragmentation; the spans may overlap."""
        source = self._arrays[old.pool, old.segment][old.offset : old.offset + size_bytes].copy()
        self._arrays[new.pool, new.segment][new.offset : new.offset + size_bytes] = source


class SimMover:
    """Implements `runtime.device.ports.Mover`: it copies the simulated KV in `slots`, [blocks, block_tokens], and the
    tags in one way."""

    def __init__(self, host: HostBytes, pool: str, slots: Words, plane: TagPlane) -> None:
        self._host = host
        self._pool = pool
        self._planes: Sequence[Words] = (slots, plane.rows)
        self._plane = plane
        self.block_bytes = 8 * sum(one.shape[1] for one in self._planes)

    def move(self, copy: Copy) -> None:
        """See Mover."""
        blocks, offset = np.asarray(copy.blocks, np.int64), copy.offset
        for plane in self._planes:
            held = self._host.words(self._pool, copy.segment, offset, len(blocks) * plane.shape[1])
            there = held.reshape(len(blocks), -1)
            if copy.way is Way.OUT:
                there[:] = plane[blocks]
            else:
                plane[blocks] = there
            offset += held.nbytes
        if copy.way is Way.IN:
            self._plane.resum(copy.blocks)
