"""One pool for each kind of spans: the face that memory turns to the rest of the runtime.

    weight      extents       global     never freed; apart, since a nail would split what is left
    activation  arena         graph      reset with each step
    workspace   ring          op         taken and given back by each operator
    io          size classes  session    staging and swap, any size at any time

KV and the prefix cache are no spans: both are blocks of one PagedPool (runtime/memory/kv). Apart, each pool has its own
policy and limit, and what is short-lived leaves no holes between what is long-lived.
"""

from collections.abc import Mapping

from runtime.core.ports import Ticket
from runtime.memory.spans.adaptors import Limit, Stats, find_adaptor
from runtime.memory.spans.fragmentation_policy import Advice
from runtime.memory.spans.pool import Move, Pool
from runtime.memory.spans.span import AllocRequest, PoolKind, ResetScope, Span
from runtime.memory.spans.usage import Usage


class Pools:
    """Sends each call to the pool of its kind."""

    def __init__(self, pools: Mapping[PoolKind, Pool]) -> None:
        self._pools = dict(pools)
        self._each = list(dict.fromkeys(self._pools.values()))
        self._by_name = {pool.name: pool for pool in self._each}
        if len(self._by_name) != len(self._each):
            raise ValueError(f"two pools of one name in {[pool.name for pool in self._each]}; rename one")

    def __getitem__(self, kind: PoolKind) -> Pool:
        """Errors: KeyError when there is no pool of this kind."""
        if kind not in self._pools:
            raise KeyError(f"no pool of kind {kind}; there are {', '.join(self._pools)}")
        return self._pools[kind]

    def alloc(self, request: AllocRequest) -> Span:
        """See Pool."""
        return self[request.pool].alloc(request)

    def free(self, span: Span, after: Ticket | None) -> None:
        """See Pool. Errors: KeyError when its pool is none of these."""
        self._by_name[span.pool].free(span, after)

    def reset(self, scope: ResetScope, after: Ticket | None) -> int:
        """See Pool; in every pool."""
        return sum(pool.reset(scope, after) for pool in self._each)

    def release_free(self) -> int:
        """See Pool; of every pool."""
        return sum(pool.release_free() for pool in self._each)

    def tend(self, moves: Mapping[PoolKind, Move], barrier: Ticket | None, bytes_max: int | None = None) -> int:
        """Do what the bands advise, for a quiet moment: merge and give back, or move; the bytes moved.

        Only kinds in `moves` are moved: whoever holds their spans must take new handles.
        """
        moved = 0
        for kind, pool in self._pools.items():
            stats = find_adaptor(pool, Stats)
            advice = Advice.NONE if stats is None else stats.look()
            if advice is Advice.DEFRAG and kind in moves:
                moved += pool.defrag(moves[kind], barrier, bytes_max=bytes_max, overlap=True)
            if advice is not Advice.NONE:
                pool.release_free()
        return moved

    def set_pool_limit(self, kind: PoolKind, bytes_max: int) -> int:
        """The limit before. Errors: LookupError when this pool was built without a Limit."""
        limit = find_adaptor(self[kind], Limit)
        if limit is None:
            raise LookupError(f"pool {self[kind].name} was built without a limit; put the adaptor Limit on it")
        before = limit.bytes_max
        limit.set_limit(bytes_max)
        return before

    def usage(self, kind: PoolKind) -> Usage:
        """See Pool."""
        return self[kind].usage()
