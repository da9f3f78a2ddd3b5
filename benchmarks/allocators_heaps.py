"""What the traces of allocators_traces.py are played on: our pools; torch's allocator is in allocators_torch.py."""

import time
from abc import ABC, abstractmethod

from faults import DisabledFaults
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.memory.spans.adaptors.limit import Limit
from runtime.memory.spans.adaptors.retry import Retry, ladder
from runtime.memory.spans.extents import Extents
from runtime.memory.spans.failures import OutOfMemory
from runtime.memory.spans.pool import Pool
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, Span
from runtime.memory.spans.span_pool import SpanPool
from runtime.memory.spans.upstream import Reserve, Segments

MIB = 1024 * 1024
KINDS = tuple(PoolKind)
SEGMENT_BYTES = 16 * MIB


class Heap(ABC):
    """What a trace is played on."""

    quiet_each = 0
    """Measured rounds between two quiet moments; 0: there is none."""
    calls = 0
    """Segments made and given back."""
    copies = moved_bytes = 0

    @abstractmethod
    def alloc(self, number: int, size_bytes: int, kind: PoolKind) -> bool:
        """Take the piece of that number; False when there is no room."""

    @abstractmethod
    def free(self, number: int) -> None:
        """Give it back."""

    @abstractmethod
    def pieces(self) -> tuple[int, int, int]:
        """(free bytes of the whole room, largest piece, largest once empty segments are given back)."""

    def quiet(self) -> None:
        """A moment in which nothing is in flight; some use it to tidy up."""
        return


class Room(Reserve):
    """Room in whole pages, as a device has it; whatever pages are left make one segment. Counts its calls."""

    def __init__(self, total_bytes: int, page_bytes: int) -> None:
        super().__init__(total_bytes)
        self.page_bytes, self.calls = page_bytes, 0

    def reserve(self, pool: str, segment: int, size_bytes: int) -> bool:
        made = super().reserve(pool, segment, self._pages(size_bytes))
        self.calls += made
        return made

    def give_back(self, pool: str, segment: int, size_bytes: int) -> None:
        super().give_back(pool, segment, self._pages(size_bytes))
        self.calls += 1

    def _pages(self, size_bytes: int) -> int:
        return -(-size_bytes // self.page_bytes) * self.page_bytes


class Ours(Heap):
    """One pool, or one for each of the six kinds, over one room.

    `layout`: "one segment" of the whole room, or "shared" segments of 16 MiB. With `rungs`, a request that fails
    climbs the ladder: "release" gives empty segments of all pools back, "move" moves spans too. `quiet_each` and
    `quiet_bytes`: how often spans are moved in a quiet moment, and how much.
    """

    def __init__(
        self,
        room: Room,
        pools: int = 1,
        layout: str = "one segment",
        rungs: str = "",
        quiet_each: int = 0,
        quiet_bytes: int | None = None,
        limit_bytes: dict[PoolKind, int] | None = None,
    ) -> None:
        env, self.room, self.quiet_each, self._quiet_bytes = real_env(), room, quiet_each, quiet_bytes
        names = [str(kind) for kind in KINDS[:pools]]
        self._segments = [
            Segments(room, name, room.total_bytes if layout == "one segment" else SEGMENT_BYTES) for name in names
        ]
        bare = [SpanPool(env, name, Extents(segments)) for name, segments in zip(names, self._segments, strict=True)]
        self._spans: dict[int, tuple[Pool, Span]] = {}
        self._number_of: dict[Span, int] = {}
        self._pools: list[Pool] = list(bare)
        self._rungs, self._bare = rungs, bare
        if limit_bytes is not None:
            self._pools = [Limit(one, limit_bytes[kind]) for one, kind in zip(bare, KINDS, strict=True)]
        if rungs:
            move = self._move if rungs == "move" else None
            self._pools = [Retry(one, env, ladder(env, one, neighbours=bare, move=move)) for one in self._pools]

    @property
    def calls(self) -> int:  # type: ignore[override]
        return self.room.calls

    def alloc(self, number: int, size_bytes: int, kind: PoolKind) -> bool:
        pool = self._pools[KINDS.index(kind) % len(self._pools)]
        try:
            span = pool.alloc(AllocRequest(size_bytes, 4096, kind, Lifetime.GLOBAL))
        except OutOfMemory:
            return False
        self._spans[number], self._number_of[span] = (pool, span), number
        return True

    def free(self, number: int) -> None:
        pool, span = self._spans.pop(number)
        del self._number_of[span]
        pool.free(span, None)

    def pieces(self) -> tuple[int, int, int]:
        usages, left = [pool.usage() for pool in self._pools], self.room.left_bytes
        largest = max(left, *(one.largest_free_bytes for one in usages))
        in_use = [{span.segment for span, _ in pool.live()} for pool in self._bare]
        empty = [
            sum(size for one, size in segments.bytes_of.items() if one not in used)
            for segments, used in zip(self._segments, in_use, strict=True)
        ]
        given_back = left + (sum(empty) if self._rungs else max(empty))
        return left + sum(one.free_bytes for one in usages), largest, max(largest, given_back)

    def quiet(self) -> None:
        for pool in self._pools:
            pool.defrag(self._move, None, bytes_max=self._quiet_bytes, overlap=True)
            pool.release_free()

    def _move(self, old: Span, new: Span, size_bytes: int) -> None:
        number = self._number_of.pop(old)
        self._spans[number], self._number_of[new] = (self._spans[number][0], new), number
        self.copies += 1
        self.moved_bytes += size_bytes


class _Clock:
    def now_ns(self) -> int:
        return time.monotonic_ns()


def real_env() -> Env:
    return Env(_Clock(), 0, DisabledFaults(), Ledger())
