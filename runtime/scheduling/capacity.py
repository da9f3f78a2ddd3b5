"""Whether the pool can hold one more request, now and as far as one can expect until all of them end."""

from collections import Counter
from collections.abc import Callable, Sequence

from runtime.core.env import Env
from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.peak import peak_blocks
from runtime.scheduling.request import Request


class CapacityCheck:
    """One request beside others, of one pool, as it is asked about before each of the next steps.

    Blocks that several hold count once; of those that the request would share it needs no second one.
    """

    def __init__(
        self, pool: PagedPool, free: int, need: int, lives: Callable[[], list[tuple[int, int]]], beside: int
    ) -> None:
        self._pool = pool
        self._free = free
        self._need = need
        self._lives_of = lives
        self._lives: list[tuple[int, int]] = []
        """Worked out when they are first asked for: mostly blocks are short already now."""
        self._beside = beside

    def fits(self, steps: int = 0, taken: int = 0) -> bool:
        """Whether there is room once the others have decoded `steps` more tokens each, in `taken` more blocks: for its
        whole context, for one more block of each that runs, and for what all will hold at their peak."""
        if not self._beside:
            return True
        if self._need + self._beside > self._free - taken:
            return False
        self._lives = self._lives or self._lives_of()
        *others, own = self._lives
        lives = [(now + steps, max(0, to_come - steps)) for now, to_come in others] if steps else others
        return peak_blocks((*lives, own), self._pool.block_tokens) <= self._pool.blocks


class Capacity:
    """Of one pool, beside those in `running`. `expected_output`: the share of `max_tokens` that is counted with."""

    def __init__(self, env: Env, pool: PagedPool, running: Sequence[Request], expected_output: float) -> None:
        self._env = env
        self._pool = pool
        self._running = running
        self._expected_output = expected_output

    def fits(
        self, request: Request, cached: Sequence[int], without: Sequence[Request] = (), *, soon: bool = False
    ) -> bool:
        """Whether `request` has room, `cached` blocks of it being there already. With nobody beside it, it need not be
        asked. `without`: as if these had left. `soon`: what waits for a copy counts as free."""
        return self.capacity_check(request, cached, without, soon=soon).fits()

    def capacity_check(
        self, request: Request, cached: Sequence[int], without: Sequence[Request] = (), *, soon: bool = False
    ) -> CapacityCheck:
        """The same, to be asked more than once."""
        pool, count, leaving = self._pool, self._pool.count(), set(map(id, without))
        beside = [one for one in self._running if id(one) not in leaving]
        shared = len(cached) - pool.index.idle_among(cached)
        need = pool.blocks_for(len(request.tokens) + 1) - shared
        free = count.reclaimable + self._freed(without, cached) + (count.limbo if soon else 0)
        return CapacityCheck(pool, free, need, lambda: self._lives(beside, request, cached), len(beside))

    def coming(self, need: int) -> bool:
        """Whether `need` blocks are there once the copies in flight are done, so that nobody has to go for them."""
        count = self._pool.count()
        return count.limbo > 0 and count.reclaimable + count.limbo >= need

    def _freed(self, without: Sequence[Request], cached: Sequence[int]) -> int:
        """Blocks that nobody holds any more once these have left, but for those that stay for who comes."""
        if not without:
            return 0
        holders, kept = self._env.ledger.holders(self._pool.name), set(cached)
        held = Counter(block for one in without for block in one.blocks)
        return sum(holders[block] == times and block not in kept for block, times in held.items())

    def _lives(self, beside: Sequence[Request], request: Request, cached: Sequence[int]) -> list[tuple[int, int]]:
        """(tokens now, tokens to come) of each, `request` last. A block that several hold counts for the one of them
        that lives longest."""
        if not cached and not self._env.ledger.has_shared(self._pool.name):
            return [(len(one.tokens), self._to_come(one)) for one in (*beside, request)]
        lives = [(one, one.blocks, self._to_come(one)) for one in beside]
        lives.append((request, list(cached), self._to_come(request)))
        seen: set[int] = set()
        twice: dict[int, int] = {}
        for one, blocks, _ in sorted(lives, key=lambda life: -life[2]):
            before = len(seen)
            seen.update(blocks)
            twice[id(one)] = len(blocks) - (len(seen) - before)
        size = self._pool.block_tokens
        return [(len(one.tokens) - twice[id(one)] * size, to_come) for one, _, to_come in lives]

    def _to_come(self, request: Request) -> int:
        """Tokens that it is expected to generate still."""
        return max(0, int(request.submit.max_tokens * self._expected_output) - request.generated)
