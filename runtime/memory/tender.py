"""Memory looked after between two steps, at most once in `every_ns`: by the engine's thread, and never while it is busy
with more than a moment's work.

    free memory of the device below the floor    segments that hold nothing are given back       mark memory.pressure
    free bytes of a pool lie in pieces           they are brought together, a little at a time   (bands.py)
    figures                                      a snapshot for whoever asks from another thread
"""

from collections.abc import Callable, Mapping, Sequence

from runtime.core.env import Env
from runtime.core.ports import Ticket
from runtime.memory.spans.failures import DefragFailed
from runtime.memory.spans.pool import Move
from runtime.memory.spans.pools import Pools
from runtime.memory.spans.span import PoolKind
from runtime.memory.spans.usage import Usage

PRESSURE = "memory.pressure"
DEFRAG_FAILED = "memory.defrag_failed"
EVERY_NS = 1_000_000_000
MOVED_BYTES_MAX = 4 << 20
"""A turn: the copies are made on the engine's thread."""


class Tender:
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
        measure: Callable[[], Sequence[Usage]] = lambda: (),
        every_ns: int = EVERY_NS,
    ) -> None:
        self.usages: tuple[Usage, ...] = ()
        """As of the last turn; replaced whole, so other threads may read it."""
        self.free_bytes: int | None = None
        """What the device said at the last turn."""
        self._env, self._pools, self._moves, self._barrier = env, pools, moves, barrier
        self._ask, self._floor_bytes, self._measure, self._every_ns = free_bytes, floor_bytes, measure, every_ns
        self._next_ns = env.clock.now_ns()

    def turn(self) -> None:
        """Cheap unless it is time."""
        now_ns = self._env.clock.now_ns()
        if now_ns < self._next_ns:
            return
        self._next_ns = now_ns + self._every_ns
        self.free_bytes = self._ask()
        if self.free_bytes is not None and self.free_bytes < self._floor_bytes:
            self._env.marks.hit(PRESSURE)
            self._pools.release_free()
        self._tend()
        self.usages = tuple(self._measure())

    def _tend(self) -> None:
        try:
            barrier = self._barrier()
        except DefragFailed:
            return  # not now, which is no failure
        try:
            self._pools.tend(self._moves, barrier, MOVED_BYTES_MAX)
        except DefragFailed:
            self._env.marks.hit(DEFRAG_FAILED)
