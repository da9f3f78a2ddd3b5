"""Maintenance of host memory between two steps, on the engine's thread, at most once a second.

free memory of the device below the floor    segments without spans are given back, and the swap pool
                                             grows no further                  counter memory.pressure
fragmentation of the swap pool               spans are moved, a few MiB each turn
figures                                      measured again, for other threads to read
"""

from collections.abc import Callable

from runtime.core.env import Env
from runtime.memory.host import HostMemory
from runtime.memory.spans.failures import DefragFailed
from runtime.memory.spans.fragmentation_policy import Advice
from runtime.memory.spans.usage import MemoryFigures

EVERY_NS = 1_000_000_000
MOVED_BYTES_MAX = 4 << 20
"""Bytes moved in one turn: the copies run on the engine's thread."""


class MaintenanceLoop:
    """`free_bytes` returns the free memory of the device, None when the device does not report it. `measure` returns
    all figures; its argument is the latest result of `free_bytes`."""

    def __init__(
        self,
        env: Env,
        host: HostMemory,
        free_bytes: Callable[[], int | None],
        floor_bytes: int,
        measure: Callable[[int | None], MemoryFigures],
    ) -> None:
        self.figures = MemoryFigures()
        """The latest figures. The object is replaced and never changed, so other threads may read it."""
        self._stale = True
        self._usual_limit: int | None = None
        """The limit of the swap pool (bytes) without pressure; None while there is no pressure."""
        self._env, self._host = env, host
        self._free_bytes, self._floor_bytes, self._measure = free_bytes, floor_bytes, measure
        self._next_ns = env.clock.now_ns()

    def turn(self) -> None:
        """Do the maintenance when it is due. It costs one reading of the clock otherwise."""
        now_ns = self._env.clock.now_ns()
        if now_ns < self._next_ns:
            self._stale = True
            return
        self._next_ns = now_ns + EVERY_NS
        free_bytes = self._free_bytes()
        if free_bytes is not None:
            self._relieve(free_bytes)
        self._defragment()
        self.figures, self._stale = self._measure(free_bytes), False

    def wait_s(self) -> float | None:
        """Time in s until the figures are measured again; None when they are up to date."""
        return max(0.0, (self._next_ns - self._env.clock.now_ns()) / 1e9) if self._stale else None

    def _relieve(self, free_bytes: int) -> None:
        """Below the floor, release segments without spans and let the swap pool grow no further: requests that are then
        preempted are recomputed. The swap pool gets its usual limit back once twice the floor is free."""
        limit = self._host.limit
        if free_bytes < self._floor_bytes:
            self._env.counters.hit("memory.pressure")
            limit.release_free()
            if self._usual_limit is None:
                self._usual_limit, limit.bytes_max = limit.bytes_max, limit.taken_bytes
        elif self._usual_limit is not None and free_bytes >= 2 * self._floor_bytes:
            limit.bytes_max, self._usual_limit = self._usual_limit, None

    def _defragment(self) -> None:
        """Follow the advice on fragmentation: MERGE releases segments without spans, DEFRAG moves spans before that."""
        host = self._host
        try:
            barrier = host.barrier()
        except DefragFailed:
            return  # a copy is in flight, which is no failure
        advice = host.pool.advise()
        try:
            if advice is Advice.DEFRAG:
                host.pool.defrag(host.move, barrier, bytes_max=MOVED_BYTES_MAX, overlap=True)
        except DefragFailed:
            self._env.counters.hit("memory.defrag_failed")
            return
        if advice is not Advice.NONE:
            host.pool.release_free()
