"""Whether the pool can hold one more request, now and as far as one can expect until all of them end."""

from collections.abc import Sequence

from runtime.core.env import Env
from runtime.memory.paged import PagedPool
from runtime.scheduling.peak import peak_blocks
from runtime.scheduling.request import Request


class Room:
    """Of one pool, beside those in `running`. `expected_output`: the share of `max_tokens` that is counted with."""

    def __init__(self, env: Env, pool: PagedPool, running: Sequence[Request], expected_output: float) -> None:
        self._env = env
        self._pool = pool
        self._running = running
        self._expected_output = expected_output

    def fits(
        self, request: Request, cached: Sequence[int], without: Sequence[Request] = (), *, soon: bool = False
    ) -> bool:
        """Room for its whole context, and one block for each that runs, so that it preempts nobody; and for what all of
        them will hold at their peak. With nobody beside it, it need not be asked.

        Of `cached` blocks it needs no second one; those that nobody holds are room no longer. `without`: as if these
        had given back what only they hold. `soon`: what waits for a copy counts as free.
        """
        beside = [one for one in self._running if one not in without]
        if not beside:
            return True
        pool, count = self._pool, self._pool.count()
        shared = len(cached) - pool.index.idle_among(cached)
        need = pool.blocks_for(len(request.tokens) + 1) - shared
        free = count.reclaimable + sum(self._alone(one) for one in without) + (count.limbo if soon else 0)
        if need + len(beside) > free:
            return False
        lives = [(len(one.tokens), self._to_come(one)) for one in (*beside, request)]
        held_twice = sum(len(one.blocks) for one in self._running) - count.live
        return peak_blocks(lives, pool.block_tokens) - shared - max(0, held_twice) <= pool.blocks

    def coming(self, need: int) -> bool:
        """Whether `need` blocks are there once the copies in flight are done, so that nobody has to go for them."""
        count = self._pool.count()
        return count.limbo > 0 and count.reclaimable + count.limbo >= need

    def _alone(self, one: Request) -> int:
        """Blocks that nobody else holds."""
        holders = self._env.ledger.holders(self._pool.name)
        return sum(holders[block] == 1 for block in one.blocks)

    def _to_come(self, request: Request) -> int:
        """Tokens that it is expected to generate still."""
        return max(0, int(request.submit.max_tokens * self._expected_output) - request.generated)
