"""Host memory of a runtime: the pool "io" on the engine's thread, and the swap space in it.

Stats > Retry > Limit > Track > Fault > size classes > extents > segments of host memory
"""

from collections.abc import Callable
from dataclasses import dataclass

from runtime.core.env import Env
from runtime.core.ports import Ticket
from runtime.core.work import Copy
from runtime.memory.assembly import MIB, Poison, Timer, span_pool
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.swap import SwapSpace
from runtime.memory.spans.adaptors.fault import Fault
from runtime.memory.spans.adaptors.limit import Limit
from runtime.memory.spans.adaptors.retry import Retry, ladder
from runtime.memory.spans.adaptors.stats import Stats
from runtime.memory.spans.adaptors.track import Track
from runtime.memory.spans.classes import Classes
from runtime.memory.spans.extents import Extents
from runtime.memory.spans.span import Span
from runtime.memory.spans.upstream import Segments, Upstream

SEGMENT_BYTES = 4 * MIB


@dataclass(frozen=True)
class HostSegments:
    """The segments of host memory, and the functions that work on them."""

    upstream: Upstream
    block_bytes: int
    """Bytes that the KV of one block takes on the host, with its tags."""
    copy: Callable[[Span, Span, int], None]
    """copy(old, new, size_bytes) copies within the segments; the two spans may overlap."""
    poison: Poison | None = None
    timer: Timer | None = None


class HostMemory:
    """The pool "io" with room for `swap_blocks` blocks, and the swap space for them: None for 0 blocks. `copy` copies
    between a device and the host."""

    def __init__(
        self, env: Env, kv: PagedPool, segments: HostSegments, swap_blocks: int, copy: Callable[[Copy], Ticket]
    ) -> None:
        bytes_max = max(1, swap_blocks * segments.block_bytes)
        extents = Extents(Segments(segments.upstream, "io", min(SEGMENT_BYTES, bytes_max)))
        spans = span_pool(env, "io", Classes(extents), segments.poison)
        self.limit = Limit(Track(Fault(spans, env), env), bytes_max)
        rungs = ladder(env, self.limit, move=self.move, barrier=self.barrier)
        self.pool = Stats(Retry(self.limit, env, rungs), env.clock, segments.timer)
        self.swap = SwapSpace(env, kv, self.pool, segments.block_bytes, copy) if swap_blocks else None
        self._copy = segments.copy

    def move(self, old: Span, new: Span, size_bytes: int) -> None:
        """Copy the bytes of a span for a defragmentation, and tell the swap space its new handle. See pool.Move."""
        assert self.swap is not None, f"{old} belongs to no swap space"
        self._copy(old, new, size_bytes)
        self.swap.replace_handle(old, new)

    def barrier(self) -> Ticket | None:
        """Return the last launch that may touch a span. Raises DefragFailed while no span may be moved."""
        return None if self.swap is None else self.swap.barrier()
