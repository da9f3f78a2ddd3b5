"""Retry: the ladder that a pool climbs before it says no. Each rung is counted, those that helped apart.

    evict prefix -> release free segments -> defrag -> preempt -> reject

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
from runtime.memory.spans.usage import Usage


@dataclass(frozen=True, slots=True)
class Rung:
    """`climb` makes room and says whether it did anything; it is climbed again while it does, at most `times_max`."""

    name: str
    climb: Callable[[AllocRequest], bool]
    times_max: int = 1


@dataclass(slots=True)
class RungCount:
    """`saved` of `climbed` times the request was served right after."""

    climbed: int = 0
    saved: int = 0


class Retry(Adaptor):
    """Fills fallbacks of Usage. Counts into the Env's marks: memory.out_of_memory at each first failure,
    memory.<rung> at each climb, memory.reject when the ladder has ended."""

    def __init__(self, inner: Pool, env: Env, rungs: Sequence[Rung]) -> None:
        super().__init__(inner)
        self.counts = {rung.name: RungCount() for rung in rungs}
        if len(self.counts) != len(rungs):
            raise ValueError(f"pool {inner.name}: rungs {[rung.name for rung in rungs]}; name each differently")
        self._env, self._rungs = env, tuple(rungs)

    def alloc(self, request: AllocRequest) -> Span:
        try:
            return self.inner.alloc(request)
        except OutOfMemory as error:
            self._env.marks.hit("memory.out_of_memory")
            return self._climb(request, error)

    def usage(self) -> Usage:
        return replace(self.inner.usage(), fallbacks=sum(count.saved for count in self.counts.values()))

    def _climb(self, request: AllocRequest, error: OutOfMemory) -> Span:
        for rung in self._rungs:
            for _ in range(rung.times_max):
                self._env.marks.hit(f"memory.{rung.name}")
                self.counts[rung.name].climbed += 1
                if not rung.climb(request):
                    break
                try:
                    span = self.inner.alloc(request)
                except OutOfMemory as again:
                    error = again
                else:
                    self.counts[rung.name].saved += 1
                    return span
        self._env.marks.hit("memory.reject")
        raise error


def ladder(
    env: Env,
    pool: Pool,
    *,
    neighbours: Sequence[Pool] = (),
    evict: Callable[[AllocRequest], bool] | None = None,
    move: Move | None = None,
    barrier: Callable[[], Ticket | None] = lambda: None,
    preempt: Callable[[AllocRequest], bool] | None = None,
    times_max: int = 8,
) -> tuple[Rung, ...]:
    """The rungs that this pool can have. `neighbours` live on the same device, so their empty segments are room for
    this one; `move` makes all of them pools that can be defragmented, after the launch that `barrier` names:
    first this one (some bytes, and all that helps where these are too few), and when nothing moves there, the
    neighbours. Evict and preempt end one holding at a time and are climbed up to `times_max` times."""

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
            env.marks.hit("memory.defrag_failed")
            return False
        return release_free(request) or moved_bytes > 0

    rungs = [Rung("release_free", release_free)]
    if evict is not None:
        rungs.insert(0, Rung("evict", evict, times_max))
    if move is not None:
        rungs.append(Rung("defrag", defrag, times_max=2))
    if preempt is not None:
        rungs.append(Rung("preempt", preempt, times_max))
    return tuple(rungs)
