"""The paged KV pool: fixed blocks with owners, given back through limbo, and kept for others while there is room.

After Kwon et al. 2023 (PagedAttention): a sequence's KV lives in blocks of `block_tokens` slots reached through a
table, so the only waste is inside the last block. Reuse is last in, first out: a block freed too early is overwritten
soon, and the tag plane sees it.

    free --take--> live --last release--> limbo --launch done--> cached (if published) --evict--> free
                    ^ share: one owner more                        | share
                    `----------------------------------------------'

Only full blocks are published and sharing begins and ends at their edges, so a shared block is never written and
there is no copy-on-write: `check_writes` asserts it before each launch.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from faults.points import Kind
from runtime.core.env import Env
from runtime.core.errors import OutOfBlocks
from runtime.core.ledger import Limbo
from runtime.core.owner import Owner
from runtime.core.ports import Ticket
from runtime.memory.kv.account import Account
from runtime.memory.kv.points import KV_EVICT, KV_PUBLISH, KV_TAKE
from runtime.memory.kv.prefix import BlockKey, PrefixIndex
from runtime.memory.kv.tags import TagPlane
from runtime.memory.spans.points import MEMORY_FREE

LATENCIES_KEPT = 4096


class PoolCount(NamedTuple):
    """Where every block of a pool is. `live + limbo + cached + free == total`, or something is lost or given twice."""

    live: int
    """Held by somebody; a shared block counts once."""
    limbo: int
    """Held by nobody, and touched by a launch in flight."""
    free: int
    total: int
    cached: int = 0
    """Held by nobody, and kept for whoever begins alike; evicted when room is needed."""

    @property
    def reclaimable(self) -> int:
        """What could be taken now."""
        return self.free + self.cached

    @property
    def conserved(self) -> bool:
        """Whether the terms add up."""
        return self.live + self.limbo + self.cached + self.free == self.total


class PagedPool:
    """`blocks` blocks of `block_tokens` tokens. Owners are names in the ledger; the pool itself knows only ids.

    `prefix_cache` keeps published blocks for others; `version` names weights and quantisation, whose KV never mixes.
    `timer` gives wall time in ns to measure allocations with; without it, as in virtual time, none is measured.
    """

    def __init__(
        self,
        env: Env,
        blocks: int,
        block_tokens: int,
        name: str = "kv",
        *,
        prefix_cache: bool = False,
        version: str = "",
        timer: Callable[[], int] | None = None,
    ) -> None:
        self.name = name
        self.prefix_cache = prefix_cache
        self.version = version
        self.index = PrefixIndex(blocks)
        self.blocks = blocks
        self.block_tokens = block_tokens
        self.plane = TagPlane(blocks, block_tokens)
        self._env = env
        self._free = list(range(blocks - 1, -1, -1))
        self._pins: dict[int, int] = {}
        """How many entries of limbo each block is in."""
        self.peak = 0
        """The most blocks that were live and in limbo at once."""
        self.latencies_ns: deque[int] = deque(maxlen=LATENCIES_KEPT)
        """Wall time of the last calls of `take`."""
        self._accounts: dict[str, Account] = {}
        self._saved = {"preempt": 0, "reject": 0}
        self._timer = timer
        self._start_ns = env.clock.now_ns()

    def take(self, owner: Owner, n: int) -> tuple[list[int], list[int]]:
        """`n` blocks for `owner` and their generations; cached ones are evicted for it. Raises OutOfBlocks, and then
        nothing was taken."""
        timer = self._timer
        start_ns = timer() if timer is not None else 0
        account = self._account(owner.tenant)
        try:
            blocks = self._take(owner, n, account)
            return blocks, self.plane.hand_out(blocks)
        except OutOfBlocks:
            account.failed += 1
            raise
        finally:
            if timer is not None:
                self.latencies_ns.append(timer() - start_ns)

    def _take(self, owner: Owner, n: int, account: Account) -> list[int]:
        env, free = self._env, self._free
        if env.faults.armed:
            owner.fire(KV_TAKE, env.faults, pool=self.name)
        short = n - len(free)
        if short > 0 and not self._evict(short, owner):
            room = f"{len(free)} are free and {self.index.idle} cached"
            raise OutOfBlocks(f"{owner.request} asks {n} blocks of pool {self.name}, {room}")
        if n == 1:
            blocks = [free.pop()]
        else:
            blocks = free[len(free) - n :]
            del free[len(free) - n :]
            blocks.reverse()
        if short < n and not self.index.spares(blocks):  # freed by mistake while published: now nobody finds it
            self.index.forget(blocks)
        if not env.ledger.acquire(self.name, owner.request, blocks):
            self._given_twice(owner.request, blocks)
        account.took(1, short > 0, n)
        self._see_peak()
        return blocks

    def share(self, owner: Owner, blocks: Sequence[int]) -> list[int]:
        """`owner` now holds published `blocks` too, with all that hold them already. Returns the generations that they
        were published with: every reader claims the same one."""
        generations = [self.index.hold(block) for block in blocks]
        ledger, name = self._env.ledger, self.name
        live = ledger.live(name)
        ledger.acquire(name, owner.request, blocks)
        self._account(owner.tenant).grew(ledger.live(name) - live)
        self._see_peak()
        return generations

    def looked_up(self, owner: Owner, tokens: int, found: int) -> None:
        """`owner` was let in: so many of its tokens were looked for in the prefix index, and so many were found."""
        account = self._account(owner.tenant)
        account.queries += tokens
        account.hits += found

    def saved_by(self, rung: str) -> None:
        """A rung of the scheduler's ladder ended a want of blocks: "preempt", or "reject" when none of them helped."""
        self._saved[rung] += 1

    def publish(self, owner: Owner, block: int, generation: int, key: BlockKey) -> None:
        """`block` holds `key`, its KV is computed, and others may share it. Of two that hold the same one is known."""
        faults = self._env.faults
        if faults.armed:
            effect = owner.fire(KV_PUBLISH, faults, pool=self.name)
            if effect is not None and effect.kind is Kind.DROP:
                return
        self.index.add(block, key, generation)

    def publish_all(
        self, owner: Owner, blocks: Sequence[int], generations: Sequence[int], keys: Sequence[BlockKey]
    ) -> int:
        """`publish` for each of these. Returns how many keys nobody can find afterwards."""
        if not self._env.faults.armed:
            self.index.add_all(blocks, keys, generations)
            return 0
        for block, generation, key in zip(blocks, generations, keys, strict=True):
            self.publish(owner, block, generation, key)
        return sum(not self.index.knows(key) for key in keys)

    def unpublish(self, block: int) -> None:
        """What `block` holds is not what it should: nobody must find it any more. Who holds it keeps it."""
        self._free.extend(self.index.forget([block]))

    def release(self, owner: Owner, blocks: Sequence[int], after: Ticket | None) -> None:
        """`owner` is done with `blocks`. Who was the last to hold one gives it back once `after` (the last launch that
        touches them) is done: published blocks stay cached, the rest is free.

        Raises KeyError when `owner` does not hold one of them.
        """
        if not blocks:
            return
        faults = self._env.faults
        if faults.armed:
            effect = owner.fire(MEMORY_FREE, faults, pool=self.name)
            if effect is not None and effect.kind is Kind.DROP:
                return
        left = self._env.ledger.release(self.name, owner.request, blocks)
        self._account(owner.tenant).live -= len(left)
        if after is None or after.done:
            self._give_back(left)
            return
        for block in blocks:
            self._pins[block] = self._pins.get(block, 0) + 1
        self._env.ledger.defer(
            Limbo(owner.request, self.name, list(blocks), after, self._env.clock.now_ns(), back=self._out_of_limbo)
        )

    def check_writes(self, blocks: Sequence[int]) -> None:
        """Before a launch: raises AssertionError when it would write what others may read."""
        assert self.index.spares(blocks), f"a launch would write published blocks of pool {self.name}: {blocks}"

    def blocks_for(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens."""
        return -(-tokens // self.block_tokens)

    def count(self) -> PoolCount:
        """Where every block is, by four counts that are kept apart."""
        ledger = self._env.ledger
        live, limbo = ledger.live(self.name), ledger.in_limbo(self.name)
        return PoolCount(live, limbo, len(self._free), self.blocks, self.index.idle)

    @property
    def reclaimable(self) -> int:
        """Blocks that could be taken now."""
        return len(self._free) + self.index.idle

    @property
    def accounts(self) -> Mapping[str, Account]:
        """By tenant, of all that ever asked."""
        return self._accounts

    @property
    def rungs(self) -> dict[str, int]:
        """Wants of blocks by the rung of the ladder that ended them; "reject": none did."""
        return {"evict": sum(one.evicting for one in self._accounts.values()), **self._saved}

    @property
    def has_shared(self) -> bool:
        """Whether some block has more than one owner."""
        return self._env.ledger.has_shared(self.name)

    @property
    def age_ns(self) -> int:
        """Since the pool was made."""
        return self._env.clock.now_ns() - self._start_ns

    def _account(self, tenant: str) -> Account:
        account = self._accounts.get(tenant)
        if account is None:
            account = self._accounts[tenant] = Account()
        return account

    def _see_peak(self) -> None:
        used = self.blocks - len(self._free) - self.index.idle
        if used > self.peak:
            self.peak = used

    def _given_twice(self, owner: str, blocks: Sequence[int]) -> None:
        self._env.tell("invariant", "kv.given_twice", f"{owner} is given blocks that are held: {blocks}")

    def _evict(self, n: int, owner: Owner) -> bool:
        """The first rung: `n` cached blocks are free. False, and nothing was evicted, when there are fewer."""
        if n > self.index.idle:
            return False
        faults = self._env.faults
        if faults.armed:
            effect = owner.fire(KV_EVICT, faults, pool=self.name)
            if effect is not None and effect.kind is Kind.DROP:
                return False
        self._env.counters.hit("kv.evict", n)
        self._free.extend(self.index.evict(n))
        return True

    def _give_back(self, blocks: Sequence[int]) -> None:
        """Nobody holds them: cached or free, but for those that wait for another launch. The end of a sequence goes
        first, so that it is evicted before the beginning that more have in common."""
        if self._pins:
            blocks = [block for block in blocks if block not in self._pins]
        self._free += self.index.rest_all(reversed(blocks))

    def _out_of_limbo(self, blocks: list[int]) -> None:
        for block in blocks:
            if self._pins[block] == 1:
                del self._pins[block]
            else:
                self._pins[block] -= 1
        holders = self._env.ledger.holders(self.name)
        self._give_back([block for block in blocks if block not in holders])
