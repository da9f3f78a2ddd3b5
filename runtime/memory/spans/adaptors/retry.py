"""Retry: the ladder of rungs that a pool tries before it raises OutOfMemory.

    release free segments -> defrag -> reject

Bytes that a rung frees may have to wait in limbo. Then this request fails, and a later one finds them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from runtime.core.env import Env
from runtime.core.ports import Ticket
from runtime.memory.spans.adaptors.base import Adaptor
from runtime.memory.spans.failures import DefragFailed, OutOfMemory
from runtime.memory.spans.pool import Move, Pool
from runtime.memory.spans.span import AllocRequest, Span
from runtime.memory.spans.usage import REJECT, Usage


@dataclass(frozen=True, slots=True)
class Rung:
    """`climb` frees bytes and returns whether it did anything. It is called again while it does, up to `times_max`."""

    name: str
    climb: Callable[[AllocRequest], bool]
    times_max: int = 1


class Retry(Adaptor):
    """Fills `rungs` of Usage. Counters: memory.out_of_memory for each request that fails at first, memory.RUNG for each
    climb, memory.reject for each request that no rung saved."""

    def __init__(self, inner: Pool, env: Env, rungs: Sequence[Rung]) -> None:
        super().__init__(inner)
        self._env, self._rungs = env, tuple(rungs)
        self._saved = dict.fromkeys([*(rung.name for rung in rungs), REJECT], 0)

    def alloc(self, request: AllocRequest) -> Span:
        try:
            return self.inner.alloc(request)
        except OutOfMemory as error:
            self._env.counters.hit("memory.out_of_memory")
            return self._climb(request, error)

    def usage(self) -> Usage:
        return replace(self.inner.usage(), rungs=dict(self._saved))

    def _climb(self, request: AllocRequest, error: OutOfMemory) -> Span:
        for rung in self._rungs:
            for _ in range(rung.times_max):
                self._env.counters.hit(f"memory.{rung.name}")
                if not rung.climb(request):
                    break
                try:
                    span = self.inner.alloc(request)
                except OutOfMemory as again:
                    error = again
                else:
                    self._saved[rung.name] += 1
                    return span
        self._env.counters.hit("memory.reject")
        self._saved[REJECT] += 1
        raise error


def ladder(
    env: Env,
    pool: Pool,
    *,
    neighbours: Sequence[Pool] = (),
    move: Move | None = None,
    barrier: Callable[[], Ticket | None] = lambda: None,
) -> tuple[Rung, ...]:
    """Return the rungs of `pool`. `neighbours` are pools on the same device, whose empty segments are released too.
    With `move`, `pool` is defragmented after the launch that `barrier` returns: first a few bytes, then as many as
    help. When nothing moves in `pool`, its neighbours are defragmented.

    (The KV pool has its own ladder: it evicts cached blocks, and the scheduler preempts requests.)"""

    def release_free(request: AllocRequest) -> bool:
        return sum(one.release_free() for one in (pool, *neighbours)) > 0

    def defrag(request: AllocRequest) -> bool:
        assert move is not None
        try:
            after = barrier()
        except DefragFailed:
            return False  # a copy is in flight, which is no failure
        try:
            quiet = after is None or after.done
            moved_bytes = pool.defrag(move, after, bytes_max=4 * request.bytes, overlap=quiet)
            if pool.usage().largest_free_bytes < request.bytes:
                moved_bytes += pool.defrag(move, after, overlap=quiet)
            if moved_bytes:
                return True
            moved_bytes = sum(one.defrag(move, after, overlap=quiet) for one in neighbours if one is not pool)
        except DefragFailed:
            env.counters.hit("memory.defrag_failed")
            return False
        return release_free(request) or moved_bytes > 0

    rungs = [Rung("release_free", release_free)]
    if move is not None:
        rungs.append(Rung("defrag", defrag, times_max=2))
    return tuple(rungs)
