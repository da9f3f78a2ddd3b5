"""Figures of the KV pool, its prefix cache, its tenants and its requests, against a plain count of the same events.

The model knows sets of blocks and nothing of how the pool counts: what is live, waits or rests is worked out afresh
after each rule, and every figure that is reported must be what the model says.
"""

from collections import Counter
from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import invariant, precondition, rule

from faults import DisabledFaults
from runtime.core.env import Env
from runtime.core.errors import OutOfBlocks
from runtime.core.ledger import Ledger
from runtime.core.owner import Owner
from runtime.core.ports import Ticket
from runtime.memory.kv.figures import Holding, kv_usage, prefix_usage, request_usages, tenant_usages
from runtime.memory.kv.paged import PagedPool
from runtime.memory.spans.usage import figures_of
from tests.runtime.fakes import SetClock
from tests.steps import CountedMachine, machine_settings

BLOCKS, SIZE = 9, 4
BLOCK_BYTES = 64 * SIZE
CHAIN = 3
"""Blocks at the beginning of every prompt of a tenant that are alike."""
tenants = st.sampled_from(["x", "y"])


@dataclass
class Chat:
    """One request, and what it should be told to have."""

    name: str
    tenant: str
    tokens: int
    blocks: list[int] = field(default_factory=list)
    generations: list[int] = field(default_factory=list)
    published: int = 0
    host_blocks: int = 0
    failed: int = 0
    preempted: int = 0
    hits: int = 0

    @property
    def owner(self) -> Owner:
        return Owner(self.name, self.tenant, "decode")

    @property
    def holding(self) -> Holding:
        host_bytes = self.host_blocks * BLOCK_BYTES
        return Holding(self.owner, self.blocks, self.tokens, host_bytes, self.failed, self.preempted, self.hits)


class FiguresMachine(CountedMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock, self.tick = SetClock(), 0
        self.env = Env(self.clock, 0, DisabledFaults(), Ledger())
        self.pool = PagedPool(self.env, BLOCKS, SIZE, prefix_cache=True, timer=self.timer)
        self.chats: list[Chat] = []
        self.leaked: list[Chat] = []
        self.waiting: list[tuple[Ticket, list[int]]] = []
        self.index: dict[tuple[str, int], int] = {}
        self.idle: list[int] = []
        self.peak = self.index_peak = self.made = 0
        self.peaks: Counter[str] = Counter()
        self.count: Counter[str] = Counter()
        self.by_tenant: dict[str, Counter[str]] = {}

    def timer(self) -> int:
        """Read twice by each call of `take`: the nth takes n ns."""
        self.tick += 1
        calls = self.tick // 2
        return calls * (calls + 1) // 2

    # -- the model ----------------------------------------------------------------------------------------------------

    def live(self, tenant: str | None = None) -> set[int]:
        chats = [one for one in (*self.chats, *self.leaked) if tenant in (None, one.tenant)]
        return {block for one in chats for block in one.blocks}

    @property
    def limbo(self) -> set[int]:
        return {block for _, blocks in self.waiting for block in blocks} - self.live()

    @property
    def free(self) -> set[int]:
        return set(range(BLOCKS)) - self.live() - self.limbo - set(self.idle)

    def counts(self, tenant: str) -> Counter[str]:
        return self.by_tenant.setdefault(tenant, Counter())

    def slots(self, chats: list[Chat]) -> int:
        """Slots with a known token, block by block."""
        used = {
            block: min(SIZE, max(0, one.tokens - at * SIZE)) for one in chats for at, block in enumerate(one.blocks)
        }
        return sum(used.values())

    def see_peaks(self) -> None:
        self.peak = max(self.peak, len(self.live()) + len(self.limbo))
        for tenant in "xy":
            self.peaks[tenant] = max(self.peaks[tenant], len(self.live(tenant)))

    def rest(self, blocks: list[int]) -> None:
        used, published = self.live() | self.limbo, set(self.index.values())
        self.idle += [block for block in reversed(blocks) if block not in used and block in published]

    # -- what a scheduler does ----------------------------------------------------------------------------------------

    def take(self, chat: Chat, n: int) -> bool:
        free, counts = self.free, self.counts(chat.tenant)
        if n > len(free) + len(self.idle):
            with pytest.raises(OutOfBlocks):
                self.pool.take(chat.owner, n)
            counts["failed"] += 1
            chat.failed += 1
            return False
        evicted = self.idle[: max(0, n - len(free))]
        blocks, generations = self.pool.take(chat.owner, n)
        assert set(blocks) <= free | set(evicted)
        self.idle = self.idle[len(evicted) :]
        self.index = {key: block for key, block in self.index.items() if block not in evicted}
        self.count["evicted"] += len(evicted)
        counts["allocs"] += 1
        counts["evicting"] += bool(evicted)
        chat.blocks += blocks
        chat.generations += generations
        return True

    def give_back(self, chat: Chat, flying: bool) -> None:
        blocks, chat.blocks, chat.generations, chat.published = chat.blocks, [], [], 0
        ticket = Ticket(self.made, None, 0) if flying else None  # type: ignore[arg-type]
        self.made += 1
        self.pool.release(chat.owner, blocks, ticket)
        if ticket is None or not blocks:
            self.rest(blocks)
        else:
            self.waiting.append((ticket, blocks))

    @rule(tenant=tenants, alike=st.integers(0, CHAIN), more=st.integers(1, 6))
    def begin(self, tenant: str, alike: int, more: int) -> None:
        """Let one in, behind what is cached of it."""
        chat = Chat(f"r{self.made}", tenant, alike * SIZE + more)
        self.made += 1
        cached: list[int] = []
        while len(cached) < alike and (tenant, len(cached)) in self.index:
            cached.append(self.index[tenant, len(cached)])
        self.chats.append(chat)
        if cached:
            chat.generations = self.pool.share(chat.owner, cached)
            chat.blocks, chat.published = list(cached), len(cached)
            self.counts(tenant)
            self.idle = [block for block in self.idle if block not in cached]
            self.see_peaks()
        if not self.take(chat, -(-chat.tokens // SIZE) - len(cached)):
            self.give_back(chat, flying=False)
            self.chats.remove(chat)
            return
        self.see_peaks()
        chat.hits = len(cached) * SIZE
        self.pool.count_lookup(chat.owner, chat.tokens, chat.hits)
        self.counts(tenant)["queries"] += chat.tokens
        self.counts(tenant)["hits"] += chat.hits

    @precondition(lambda self: self.chats)
    @rule(data=st.data(), tokens=st.integers(1, 9))
    def grow(self, data: st.DataObject, tokens: int) -> None:
        """Tokens come, and blocks for them if there are any."""
        chat = data.draw(st.sampled_from(self.chats))
        if chat.host_blocks:
            return
        chat.tokens += tokens
        need = -(-chat.tokens // SIZE) - len(chat.blocks)
        if need > 0 and self.take(chat, need):
            self.see_peaks()

    @precondition(lambda self: self.chats)
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        """A launch has landed that filled the first blocks of one."""
        chat = data.draw(st.sampled_from(self.chats))
        full = min(chat.tokens // SIZE, len(chat.blocks), CHAIN)
        fresh = slice(chat.published, full)
        keys = [f"{chat.tenant}{at}".encode() for at in range(full)]
        self.pool.publish(chat.owner, chat.blocks[fresh], chat.generations[fresh], keys[fresh])
        for at in range(chat.published, full):
            if (chat.tenant, at) in self.index:
                self.count["refused"] += 1
            else:
                self.index[chat.tenant, at] = chat.blocks[at]
                self.count["published"] += 1
        self.index_peak = max(self.index_peak, len(self.index))
        chat.published = max(chat.published, full)

    @precondition(lambda self: self.chats)
    @rule(data=st.data(), flying=st.booleans())
    def end(self, data: st.DataObject, flying: bool) -> None:
        """One is answered, or cancelled under a launch."""
        chat = data.draw(st.sampled_from(self.chats))
        self.give_back(chat, flying)
        self.chats.remove(chat)

    @precondition(lambda self: self.chats)
    @rule(data=st.data(), swap=st.booleans())
    def preempt(self, data: st.DataObject, swap: bool) -> None:
        chat = data.draw(st.sampled_from(self.chats))
        if chat.host_blocks or not chat.blocks:
            return
        chat.preempted += 1
        chat.host_blocks = len(chat.blocks) if swap else 0
        self.give_back(chat, flying=swap)

    @precondition(lambda self: any(chat.host_blocks for chat in self.chats))
    @rule(data=st.data())
    def swap_in(self, data: st.DataObject) -> None:
        chat = data.draw(st.sampled_from([chat for chat in self.chats if chat.host_blocks]))
        if self.take(chat, chat.host_blocks):
            chat.host_blocks = 0
            self.see_peaks()

    @precondition(lambda self: any(chat.blocks for chat in self.chats) and len(self.leaked) < 2)
    @rule(data=st.data())
    def leak(self, data: st.DataObject) -> None:
        """One ends, and its release is lost."""
        chat = data.draw(st.sampled_from([chat for chat in self.chats if chat.blocks]))
        self.chats.remove(chat)
        self.leaked.append(chat)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        done = data.draw(st.sampled_from(self.waiting))
        done[0].done_ns = 1
        self.env.ledger.complete(done[0])
        self.env.ledger.settle()
        self.waiting.remove(done)
        self.rest(done[1])

    @rule(seconds=st.integers(1, 4000))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    # -- what is told -------------------------------------------------------------------------------------------------

    @invariant()
    def every_figure_is_the_models(self) -> None:
        holdings = [chat.holding for chat in self.chats if chat.blocks or chat.host_blocks]
        told = tenant_usages(self.pool, holdings, BLOCK_BYTES)
        leaks = self.env.ledger.leaked("kv", {chat.name for chat in self.chats})
        assert figures_of(kv_usage(self.pool, told, leaks, BLOCK_BYTES)) == self.of_the_pool()
        prefix = prefix_usage(self.pool, BLOCK_BYTES)
        assert prefix is not None and figures_of(prefix) == self.of_the_prefix_cache()
        assert [figures_of(one) for one in told] == [self.of_tenant(tenant) for tenant in sorted(self.by_tenant)]
        chats = [chat for chat in self.chats if chat.blocks or chat.host_blocks]
        assert [figures_of(one) for one in request_usages(self.pool, holdings, BLOCK_BYTES)] == [
            self.of_request(chat) for chat in chats
        ]

    def of_the_pool(self) -> dict[str, object]:
        total = sum(self.by_tenant.values(), Counter[str]())
        live, calls = len(self.live()), total["allocs"] + total["failed"]
        free_bytes = (len(self.free) + len(self.idle)) * BLOCK_BYTES
        asked_bytes = self.slots(self.chats) * BLOCK_BYTES // SIZE
        hits = total["allocs"] - total["evicting"]
        figures: dict[str, object] = {
            "pool": "kv",
            "total_bytes": BLOCKS * BLOCK_BYTES,
            "asked_bytes": asked_bytes,
            "held_bytes": live * BLOCK_BYTES,
            "limbo_bytes": len(self.limbo) * BLOCK_BYTES,
            "free_bytes": free_bytes,
            "largest_free_bytes": free_bytes,
            "live": live,
            "allocs": total["allocs"],
            "hits": hits,
            "failed": total["failed"],
            "peak_bytes": self.peak * BLOCK_BYTES,
            "age_ns": self.clock.t_ns,
            "rungs": {"evict": total["evicting"], "preempt": 0, "reject": 0},
            "leaks": sum(len(chat.blocks) for chat in self.leaked),
            "internal_fragmentation": 1 - asked_bytes / (live * BLOCK_BYTES) if live else 0.0,
            "hit_rate": hits / total["allocs"] if total["allocs"] else 1.0,
            "failure_rate": total["failed"] / calls if calls else 0.0,
            "fallbacks": total["evicting"],
        }
        hours = self.clock.t_ns / 3_600_000_000_000
        figures["failed_per_hour"] = pytest.approx(total["failed"] / hours) if hours else 0.0
        if calls:
            figures["latency_ns_p99"] = -(-99 * calls // 100)
        return figures

    def of_the_prefix_cache(self) -> dict[str, object]:
        total = sum(self.by_tenant.values(), Counter[str]())
        return {
            "published_bytes": len(self.index) * BLOCK_BYTES,
            "cached_bytes": len(self.idle) * BLOCK_BYTES,
            "peak_bytes": self.index_peak * BLOCK_BYTES,
            "published": self.count["published"],
            "refused": self.count["refused"],
            "evicted": self.count["evicted"],
            "queries": total["queries"],
            "hits": total["hits"],
            "hit_rate": total["hits"] / total["queries"] if total["queries"] else 0.0,
        }

    def of_tenant(self, tenant: str) -> dict[str, object]:
        counts = self.by_tenant[tenant]
        chats = [chat for chat in self.chats if chat.tenant == tenant and (chat.blocks or chat.host_blocks)]
        held, calls = len(self.live(tenant)), counts["allocs"] + counts["failed"]
        asked_bytes = self.slots(chats) * BLOCK_BYTES // SIZE
        return {
            "tenant": tenant,
            "requests": len(chats),
            "asked_bytes": asked_bytes,
            "held_bytes": held * BLOCK_BYTES,
            "host_bytes": sum(chat.host_blocks for chat in chats) * BLOCK_BYTES,
            "peak_bytes": self.peaks[tenant] * BLOCK_BYTES,
            "allocs": counts["allocs"],
            "hits": counts["allocs"] - counts["evicting"],
            "failed": counts["failed"],
            "prefix_queries": counts["queries"],
            "prefix_hits": counts["hits"],
            "internal_fragmentation": 1 - asked_bytes / (held * BLOCK_BYTES) if held else 0.0,
            "prefix_hit_rate": counts["hits"] / counts["queries"] if counts["queries"] else 0.0,
            "failure_rate": counts["failed"] / calls if calls else 0.0,
        }

    def of_request(self, chat: Chat) -> dict[str, object]:
        asked_bytes, held_bytes = self.slots([chat]) * BLOCK_BYTES // SIZE, len(chat.blocks) * BLOCK_BYTES
        return {
            "request": chat.name,
            "tenant": chat.tenant,
            "phase": "decode",
            "asked_bytes": asked_bytes,
            "held_bytes": held_bytes,
            "host_bytes": chat.host_blocks * BLOCK_BYTES,
            "failed": chat.failed,
            "preempted": chat.preempted,
            "prefix_hits": chat.hits,
            "internal_fragmentation": 1 - asked_bytes / held_bytes if held_bytes else 0.0,
        }


FiguresMachine.TestCase.settings = machine_settings(runs=40, steps=40)
TestFigures = FiguresMachine.TestCase
