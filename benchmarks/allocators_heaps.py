"""What the trace of allocators_trace.py is played on: our pools, and a model of torch's caching allocator."""

import time
from abc import ABC, abstractmethod

from faults import NullFaults
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.memory.adaptors import Retry, ladder
from runtime.memory.extents import Extents
from runtime.memory.failures import OutOfMemory
from runtime.memory.pool import Pool
from runtime.memory.span_pool import SpanPool
from runtime.memory.spans import AllocRequest, Lifetime, PoolKind, Span
from runtime.memory.upstream import Reserve, Segments

MIB = 1024 * 1024
KINDS = tuple(PoolKind)


class Heap(ABC):
    """What the trace is played on."""

    @abstractmethod
    def alloc(self, number: int, size_bytes: int, kind: PoolKind) -> bool:
        """Take the piece of that number; False when there is no room."""

    @abstractmethod
    def free(self, number: int) -> None:
        """Give it back."""

    @abstractmethod
    def pieces(self) -> tuple[int, int]:
        """(free bytes, largest piece) of the whole room."""

    def quiet(self) -> None:
        """A moment in which nothing is in flight, each fifty rounds; some use it to tidy up."""
        return

    moved_bytes = 0


class Ours(Heap):
    """Extents in one pool, or in one for each of the six kinds, which share the room in segments of a 64th of it.

    With `repair`, a wish that fails climbs the ladder (release, defrag); with `tended`, spans slide together in each
    quiet moment.
    """

    def __init__(self, room_bytes: int, pools: int, repair: bool = False, tended: bool = False) -> None:
        self._tended = tended
        env, self._reserve = real_env(), Reserve(room_bytes)
        segment_bytes = room_bytes if pools == 1 else room_bytes // 64
        names = [str(kind) for kind in KINDS[:pools]]
        bare = [SpanPool(env, name, Extents(Segments(self._reserve, name, segment_bytes))) for name in names]
        self._spans: dict[int, tuple[Pool, Span]] = {}
        self._number_of: dict[Span, int] = {}
        self._pools: list[Pool] = list(bare)
        if repair:
            self._pools = [Retry(one, env, ladder(env, one, neighbours=bare, move=self._move)) for one in bare]

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

    def pieces(self) -> tuple[int, int]:
        usages = [pool.usage() for pool in self._pools]
        left = self._reserve.left_bytes
        return left + sum(one.free_bytes for one in usages), max(left, *(one.largest_free_bytes for one in usages))

    def quiet(self) -> None:
        for pool in self._pools if self._tended else ():
            pool.defrag(self._move, None, overlap=True)
            pool.release_free()

    def _move(self, old: Span, new: Span, size_bytes: int) -> None:
        number = self._number_of.pop(old)
        self._spans[number], self._number_of[new] = (self._spans[number][0], new), number
        self.moved_bytes += size_bytes


class TorchModel(Heap):
    """torch's caching allocator for requests above 1 MiB: below 10 MiB from 20 MiB segments, else from one of its own
    rounded to 2 MiB; the smallest block that fits; split when more than 1 MiB is left; neighbours merge inside their
    segment; when the device is full, segments that hold nothing are given back first."""

    def __init__(self, room_bytes: int) -> None:
        self._left_bytes = room_bytes
        self._segments: dict[int, int] = {}
        self._blocks: dict[tuple[int, int], list[int]] = {}  # (segment, offset) -> [bytes, free]
        self._at: dict[int, tuple[int, int]] = {}
        self._next = 0

    def alloc(self, number: int, size_bytes: int, kind: PoolKind) -> bool:
        block = self._best(size_bytes) or self._grow(size_bytes)
        if block is None:
            self._give_back()
            block = self._grow(size_bytes)
        if block is None:
            return False
        whole = self._blocks[block][0]
        if whole - size_bytes > MIB:
            self._blocks[block[0], block[1] + size_bytes] = [whole - size_bytes, 1]
            whole = size_bytes
        self._blocks[block] = [whole, 0]
        self._at[number] = block
        return True

    def free(self, number: int) -> None:
        segment, offset = self._at.pop(number)
        self._blocks[segment, offset][1] = 1
        offsets = sorted(at for one, at in self._blocks if one == segment)
        for first, second in zip(offsets[-2::-1], offsets[:0:-1], strict=True):
            low, high = self._blocks[segment, first], self._blocks[segment, second]
            if low[1] and high[1]:
                low[0] += high[0]
                del self._blocks[segment, second]

    def pieces(self) -> tuple[int, int]:
        free = [size for size, is_free in self._blocks.values() if is_free]
        return self._left_bytes + sum(free), max(self._left_bytes, *free, 0)

    def _best(self, size_bytes: int) -> tuple[int, int] | None:
        fits = [(size, at) for at, (size, is_free) in self._blocks.items() if is_free and size >= size_bytes]
        return min(fits)[1] if fits else None

    def _grow(self, size_bytes: int) -> tuple[int, int] | None:
        segment_bytes = 20 * MIB if size_bytes < 10 * MIB else -(-size_bytes // (2 * MIB)) * 2 * MIB
        if segment_bytes > self._left_bytes:
            return None
        self._left_bytes -= segment_bytes
        self._next += 1
        self._segments[self._next] = segment_bytes
        self._blocks[self._next, 0] = [segment_bytes, 1]
        return self._next, 0

    def _give_back(self) -> None:
        for segment, segment_bytes in list(self._segments.items()):
            if self._blocks.get((segment, 0)) == [segment_bytes, 1]:
                self._left_bytes += self._segments.pop(segment)
                del self._blocks[segment, 0]


class _Clock:
    def now_ns(self) -> int:
        return time.monotonic_ns()


def real_env() -> Env:
    return Env(_Clock(), 0, NullFaults(), Ledger())
