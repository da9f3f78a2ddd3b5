"""Admission by capacity: a request starts when the KV pool can hold it now and, as far as outputs can be expected,
until all running requests have ended."""

from collections import Counter
from collections.abc import Callable, Sequence

from runtime.core.env import Env
from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.peak import peak_blocks
from runtime.scheduling.request import Request


class CapacityCheck:
    """The check of one request, repeatable for each of the next steps. All counts are blocks unless they say tokens.

    Shared blocks count once, and cached blocks that the request would share are not needed again.
    """

    def __init__(
        self, pool: PagedPool, free: int, need: int, growth: Callable[[], list[tuple[int, int]]], beside: int
    ) -> None:
        self._pool = pool
        self._free = free
        self._need = need
        self._growth_of = growth
        self._growth: list[tuple[int, int]] = []
        """Computed on first use, since most checks fail before it."""
        self._beside = beside

    def fits(self, steps: int = 0, taken: int = 0) -> bool:
        """Return whether the request fits once each running request has decoded `steps` more tokens, and they have
        taken `taken` more blocks. It needs free blocks for its whole context and one for each running request, and
        the peak of all requests must fit into the pool. A request that runs alone always fits."""
        if not self._beside:
            return True
        if self._need + self._beside > self._free - taken:
            return False
        self._growth = self._growth or self._growth_of()
        *others, own = self._growth
        growth = [(now + steps, max(0, to_come - steps)) for now, to_come in others] if steps else others
        return peak_blocks((*growth, own), self._pool.block_tokens) <= self._pool.blocks


class Capacity:
    """The free capacity of `pool` beside the requests in `running`.

    `expected_output` is the share of `max_tokens` that a request is expected to generate.
    """

    def __init__(self, env: Env, pool: PagedPool, running: Sequence[Request], expected_output: float) -> None:
        self._env = env
        self._pool = pool
        self._running = running
        self._expected_output = expected_output

    def fits(
        self, request: Request, cached: Sequence[int], without: Sequence[Request] = (), *, soon: bool = False
    ) -> bool:
        """Return whether `request` fits into the pool; see `capacity_check`."""
        return self.capacity_check(request, cached, without, soon=soon).fits()

    def capacity_check(
        self, request: Request, cached: Sequence[int], without: Sequence[Request] = (), *, soon: bool = False
    ) -> CapacityCheck:
        """Return the check for `request`, whose first blocks are `cached`.

        `without`: requests that count as ended. `soon`: blocks that wait for a copy in flight count as free.
        """
        pool, count, leaving = self._pool, self._pool.count(), set(map(id, without))
        beside = [one for one in self._running if id(one) not in leaving]
        shared = len(cached) - pool.index.count_evictable(cached)
        need = pool.blocks_for(len(request.tokens) + 1) - shared
        free = count.reclaimable + self._freed(without, cached) + (count.limbo if soon else 0)
        return CapacityCheck(pool, free, need, lambda: self._growth_of(beside, request, cached), len(beside))

    def freed_by_copies(self, need: int) -> bool:
        """Return whether `need` blocks become free through the copies in flight alone, without another preemption."""
        count = self._pool.count()
        return count.limbo > 0 and count.reclaimable + count.limbo >= need

    def _freed(self, without: Sequence[Request], cached: Sequence[int]) -> int:
        """Return how many blocks lose their last owner when the requests in `without` end, except for `cached` ones."""
        if not without:
            return 0
        holders, kept = self._env.ledger.holders(self._pool.name), set(cached)
        held = Counter(block for one in without for block in one.blocks)
        return sum(holders[block] == times and block not in kept for block, times in held.items())

    def _growth_of(self, beside: Sequence[Request], request: Request, cached: Sequence[int]) -> list[tuple[int, int]]:
        """Return (tokens now, tokens to come) of each request, `request` last. A shared block counts for the owner with
        the most tokens to come."""
        if not cached and not self._env.ledger.has_shared(self._pool.name):
            return [(len(one.tokens), self._tokens_to_come(one)) for one in (*beside, request)]
        growth = [(one, one.blocks, self._tokens_to_come(one)) for one in beside]
        growth.append((request, list(cached), self._tokens_to_come(request)))
        seen: set[int] = set()
        shared: dict[int, int] = {}
        for one, blocks, _ in sorted(growth, key=lambda entry: -entry[2]):
            before = len(seen)
            seen.update(blocks)
            shared[id(one)] = len(blocks) - (len(seen) - before)
        size = self._pool.block_tokens
        return [(len(one.tokens) - shared[id(one)] * size, to_come) for one, _, to_come in growth]

    def _tokens_to_come(self, request: Request) -> int:
        """Return how many more tokens `request` is expected to generate."""
        return max(0, int(request.submit.max_tokens * self._expected_output) - request.generated)
