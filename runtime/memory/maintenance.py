"""Memory looked after between two steps, at most once in `every_ns`: by the engine's thread, and never while it is busy
with more than a moment's work.

    free memory of the device below the floor    segments that hold nothing are given back, and
                                                 the swap pool grows no further                  mark memory.pressure
    free bytes of a pool lie in pieces           they are brought together, a little at a time
    figures                                      a snapshot that other threads may read
"""

from collections.abc import Callable, Mapping

from runtime.core.env import Env
from runtime.core.ports import Ticket
from runtime.memory.spans.failures import DefragFailed
from runtime.memory.spans.pool import Move
from runtime.memory.spans.pools import Pools
from runtime.memory.spans.span import PoolKind
from runtime.memory.spans.usage import MemoryFigures

PRESSURE = "memory.pressure"
DEFRAG_FAILED = "memory.defrag_failed"
EVERY_NS = 1_000_000_000
MOVED_BYTES_MAX = 4 << 20
"""A turn: the copies are made on the engine's thread."""


class MaintenanceLoop:
    """`free_bytes` asks the device; None: it can't say. `moves` and `barrier` are as for Pools.tend; a barrier that
    raises DefragFailed says not now."""

    def __init__(
        self,
        env: Env,
        pools: Pools,
        moves: Mapping[PoolKind, Move],
        barrier: Callable[[], Ticket | None],
        free_bytes: Callable[[], int | None],
        floor_bytes: int,
        measure: Callable[[int | None], MemoryFigures],
        every_ns: int = EVERY_NS,
    ) -> None:
        self.figures = MemoryFigures()
        """As of the last measurement; replaced whole, so other threads may read it."""
        self._stale = True
        self._limit_bytes: int | None = None
        """The swap pool's own limit, while pressure holds it lower."""
        self._env, self._pools, self._moves, self._barrier = env, pools, moves, barrier
        self._ask, self._floor_bytes, self._measure, self._every_ns = free_bytes, floor_bytes, measure, every_ns
        self._next_ns = env.clock.now_ns()

    def turn(self) -> None:
        """Cheap unless it is time."""
        now_ns = self._env.clock.now_ns()
        if now_ns < self._next_ns:
            self._stale = True
            return
        self._next_ns = now_ns + self._every_ns
        free_bytes = self._ask()
        if free_bytes is not None:
            self._watch(free_bytes)
        self._tend()
        self.figures, self._stale = self._measure(free_bytes), False

    def wait_s(self) -> float | None:
        """How long until figures that are out of date are taken again; None when they are not."""
        return max(0.0, (self._next_ns - self._env.clock.now_ns()) / 1e9) if self._stale else None

    def _watch(self, free_bytes: int) -> None:
        """Below the floor: give back what holds nothing, and let the swap pool grow no further; who is preempted then
        computes again. Once there is twice the floor, the swap pool has its own limit again."""
        pools, io = self._pools, PoolKind.IO
        if free_bytes < self._floor_bytes:
            self._env.counters.hit(PRESSURE)
            pools.release_free()
            if self._limit_bytes is None:
                self._limit_bytes = pools.set_pool_limit(io, pools[io].taken_bytes)
        elif self._limit_bytes is not None and free_bytes >= 2 * self._floor_bytes:
            pools.set_pool_limit(io, self._limit_bytes)
            self._limit_bytes = None

    def _tend(self) -> None:
        try:
            barrier = self._barrier()
        except DefragFailed:
            return  # not now, which is no failure
        try:
            self._pools.tend(self._moves, barrier, MOVED_BYTES_MAX)
        except DefragFailed:
            self._env.counters.hit(DEFRAG_FAILED)
