"""The paged KV pool: fixed blocks with owners, released through limbo, and cached for later requests.

After Kwon et al. 2023 (PagedAttention): a sequence's KV lives in blocks of `block_tokens` slots reached through a
table, so the only waste is inside the last block. Free blocks are reused last in, first out: a block that was freed
too early is overwritten soon, and the tag plane detects it.

    free --take--> live --last release--> limbo --launch done--> cached (if published) --evict--> free
                    ^ share: one more owner                        | share
                    `----------------------------------------------'

Only full blocks are published and sharing begins and ends at their edges, so a shared block is never written and
there is no copy-on-write: `check_writes` asserts it before each launch.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence

from faults.points import Kind, Point
from runtime.core.env import Env
from runtime.core.errors import OutOfBlocks
from runtime.core.ledger import Limbo
from runtime.core.owner import Owner
from runtime.core.ports import Ticket
from runtime.memory.kv.counts import Account, PoolCount
from runtime.memory.kv.points import KV_EVICT, KV_PUBLISH, KV_TAKE
from runtime.memory.kv.prefix import BlockKey, PrefixIndex
from runtime.memory.kv.tags import SequenceTable, TagPlane
from runtime.memory.spans.points import MEMORY_FREE
from runtime.memory.spans.usage import LATENCIES_KEPT, REJECT


class PagedPool:
    """A pool of `blocks` blocks of `block_tokens` tokens. The ledger records owners; the pool knows block ids only.

    `prefix_cache` keeps published blocks for later requests. `version` names weights and quantisation; KV of two
    versions never mixes.
    `timer` returns wall time in ns for the latency of `take`; without it, as in virtual time, no latency is measured.
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
        self.sequences = SequenceTable(block_tokens)
        """The tags that requests expect in their blocks."""
        self._env = env
        self._free = list(range(blocks - 1, -1, -1))
        self._pins: dict[int, int] = {}
        """Block -> number of limbo entries that contain it."""
        self.peak = 0
        """The most blocks that were live and in limbo at once."""
        self.latencies_ns: deque[int] = deque(maxlen=LATENCIES_KEPT)
        """Wall time of the last LATENCIES_KEPT calls of `take`."""
        self.accounts: defaultdict[str, Account] = defaultdict(Account)
        """Tenant -> its counts, for each tenant that has ever asked for blocks."""
        self._saved = {"preempt": 0, REJECT: 0}
        self._timer = timer
        self._start_ns = env.clock.now_ns()

    def take(self, owner: Owner, n: int) -> tuple[list[int], list[int]]:
        """Return `n` blocks for `owner` and their generations; cached blocks are evicted if needed.

        Raises OutOfBlocks, and then nothing was taken."""
        timer = self._timer
        start_ns = timer() if timer is not None else 0
        account = self.accounts[owner.tenant]
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
            left = f"{len(free)} are free and {self.index.evictable} cached"
            raise OutOfBlocks(f"{owner.request} asks {n} blocks of pool {self.name}, {left}")
        if n == 1:
            blocks = [free.pop()]
        else:
            blocks = free[len(free) - n :]
            del free[len(free) - n :]
            blocks.reverse()
        if short < n and not self.index.none_published(blocks):
            self.index.forget(blocks)  # they were freed by a bug while they were published
        if not env.ledger.acquire(self.name, owner.request, blocks):
            env.tell("invariant", "kv.given_twice", f"{owner.request} is given blocks that are held: {blocks}")
        account.count_served(short > 0, n)
        self._update_peak()
        return blocks

    def share(self, owner: Owner, blocks: Sequence[int]) -> list[int]:
        """Make `owner` one more holder of published `blocks`. Return the generations that they were published with:
        all readers claim the same ones."""
        generations = [self.index.hold(block) for block in blocks]
        ledger, name = self._env.ledger, self.name
        live = ledger.live(name)
        ledger.acquire(name, owner.request, blocks)
        self.accounts[owner.tenant].add_live(ledger.live(name) - live)
        self._update_peak()
        return generations

    def count_lookup(self, owner: Owner, tokens: int, found: int) -> None:
        """Count a prefix lookup at the admission of `owner`: `found` of `tokens` tokens were in the index."""
        account = self.accounts[owner.tenant]
        account.queries += tokens
        account.hits += found

    def count_saved(self, rung: str) -> None:
        """Count a shortage of blocks by the rung of the ladder that ended it: "preempt", or "reject" for none."""
        self._saved[rung] += 1

    def publish(self, owner: Owner, blocks: Sequence[int], generations: Sequence[int], keys: Sequence[BlockKey]) -> int:
        """Enter blocks whose KV is computed, each under its key, so that others may share them. The first block with a
        key wins. Return the number of keys that can't be found afterwards."""
        if not self._env.faults.armed:
            self.index.add(blocks, keys, generations)
            return 0
        for block, key, generation in zip(blocks, keys, generations, strict=True):
            if not self._drops(owner, KV_PUBLISH):
                self.index.add((block,), (key,), (generation,))
        return sum(not self.index.knows(key) for key in keys)

    def unpublish(self, block: int) -> None:
        """Remove `block` from the index, since its KV is damaged. Requests that hold it keep it."""
        self._free.extend(self.index.forget([block]))

    def release(self, owner: Owner, blocks: Sequence[int], after: Ticket | None) -> None:
        """End the holding of `blocks` by `owner`. Blocks without another holder return once `after`, the last launch
        that touches them, is done: published blocks stay cached, the others become free.

        Raises KeyError when `owner` does not hold one of them.
        """
        if not blocks or self._drops(owner, MEMORY_FREE):
            return
        left = self._env.ledger.release(self.name, owner.request, blocks)
        self.accounts[owner.tenant].live -= len(left)
        if after is None or after.done:
            self._give_back(left)
            return
        for block in blocks:
            self._pins[block] = self._pins.get(block, 0) + 1
        self._env.ledger.defer(
            Limbo(owner.request, self.name, list(blocks), after, self._env.clock.now_ns(), back=self._return_from_limbo)
        )

    def check_writes(self, blocks: Sequence[int]) -> None:
        """Raise AssertionError when a launch would write a block of `blocks` that others may read."""
        assert self.index.none_published(blocks), f"a launch would write published blocks of pool {self.name}: {blocks}"

    def blocks_for(self, tokens: int) -> int:
        """Return how many blocks hold `tokens` tokens."""
        return -(-tokens // self.block_tokens)

    def count(self) -> PoolCount:
        """Count the blocks in each state. The four counts are kept apart, so that they reveal a lost block."""
        ledger = self._env.ledger
        live, limbo = ledger.live(self.name), ledger.in_limbo(self.name)
        return PoolCount(live, limbo, len(self._free), self.blocks, self.index.evictable)

    def lost(self) -> dict[str, list[int]]:
        """Return the blocks that are neither free, cached, live nor in limbo, by their last owner; a whole pool has
        none."""
        ledger, lost = self._env.ledger, defaultdict[str, list[int]](list)
        limbo = {block for entry in ledger.limbo() if entry.pool == self.name for block in entry.items}
        known = {*self._free, *self.index.cached, *ledger.holders(self.name), *limbo}
        for block in range(self.blocks):
            if block not in known:
                lost[ledger.last_owner(self.name, block)].append(block)
        return dict(lost)

    @property
    def reclaimable(self) -> int:
        """Blocks that could be taken now."""
        return len(self._free) + self.index.evictable

    @property
    def rungs(self) -> dict[str, int]:
        """Rung of the ladder -> shortages of blocks that it ended; "reject" counts those that no rung ended."""
        return {"evict": sum(one.evicting for one in self.accounts.values()), **self._saved}

    @property
    def has_shared(self) -> bool:
        """True when some block has more than one owner."""
        return self._env.ledger.has_shared(self.name)

    @property
    def age_ns(self) -> int:
        """Age of the pool in ns."""
        return self._env.clock.now_ns() - self._start_ns

    def _update_peak(self) -> None:
        used = self.blocks - len(self._free) - self.index.evictable
        if used > self.peak:
            self.peak = used

    def _evict(self, n: int, owner: Owner) -> bool:
        """First rung of the ladder: evict `n` cached blocks. Return False, and evict none, when there are fewer."""
        if n > self.index.evictable or self._drops(owner, KV_EVICT):
            return False
        self._env.counters.hit("kv.evict", n)
        self._free.extend(self.index.evict(n))
        return True

    def _drops(self, owner: Owner, point: Point) -> bool:
        """Cross `point`. Return True when a fault drops the operation."""
        faults = self._env.faults
        effect = owner.fire(point, faults, pool=self.name) if faults.armed else None
        return effect is not None and effect.kind is Kind.DROP

    def _give_back(self, blocks: Sequence[int]) -> None:
        """Make blocks without a holder cached or free, except those that wait for another launch. The end of a
        sequence is entered first, so that it is evicted before the prefix, which more requests share."""
        if self._pins:
            blocks = [block for block in blocks if block not in self._pins]
        self._free += self.index.make_evictable(reversed(blocks))

    def _return_from_limbo(self, blocks: list[int]) -> None:
        for block in blocks:
            if self._pins[block] == 1:
                del self._pins[block]
            else:
                self._pins[block] -= 1
        holders = self._env.ledger.holders(self.name)
        self._give_back([block for block in blocks if block not in holders])
