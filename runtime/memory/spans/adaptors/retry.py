"""Retry: the ladder that a pool climbs before it says no. Each rung is counted, those that helped apart.

    release free segments -> defrag -> reject

What a rung gives back may have to go through limbo: then this request still fails, and the next one finds it.
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
    """`climb` makes room and says whether it did anything; it is climbed again while it does, at most `times_max`."""

    name: str
    climb: Callable[[AllocRequest], bool]
    times_max: int = 1


class Retry(Adaptor):
    """Fills rungs of Usage. Counts into the Env's marks: memory.out_of_memory at each first failure,
    memory.<rung> at each climb, memory.reject when the ladder has ended."""

    def __init__(self, inner: Pool, env: Env, rungs: Sequence[Rung]) -> None:
        super().__init__(inner)
        names = [rung.name for rung in rungs]
        if len(set(names)) != len(rungs):
            raise ValueError(f"pool {inner.name}: rungs {names}; name each differently")
        self.saved = dict.fromkeys([*names, REJECT], 0)
        """Allocations by the rung that saved them; under "reject" those that none did."""
        self._env, self._rungs = env, tuple(rungs)

    def alloc(self, request: AllocRequest) -> Span:
        try:
            return self.inner.alloc(request)
        except OutOfMemory as error:
            self._env.counters.hit("memory.out_of_memory")
            return self._climb(request, error)

    def usage(self) -> Usage:
        return replace(self.inner.usage(), rungs=dict(self.saved))

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
                    self.saved[rung.name] += 1
                    return span
        self._env.counters.hit("memory.reject")
        self.saved[REJECT] += 1
        raise error


def ladder(
    env: Env,
    pool: Pool,
    *,
    neighbours: Sequence[Pool] = (),
    move: Move | None = None,
    barrier: Callable[[], Ticket | None] = lambda: None,
) -> tuple[Rung, ...]:
    """The rungs that this pool can have. `neighbours` live on the same device, so their empty segments are room for
    this one; `move` makes all of them pools that can be defragmented, after the launch that `barrier` names:
    first this one (some bytes, and all that helps where these are too few), and when nothing moves there, the
    neighbours. (Cached KV is evicted, and requests are preempted, by those who own the KV pool.)"""

    def release_free(request: AllocRequest) -> bool:
        return sum(one.release_free() for one in (pool, *neighbours)) > 0

    def defrag(request: AllocRequest) -> bool:
        assert move is not None
        try:
            after = barrier()
        except DefragFailed:
            return False  # not now, which is no failure
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
