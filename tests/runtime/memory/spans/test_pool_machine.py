"""The paged pool, its prefix index and the ledger's limbo against a plain model: who holds what, what waits for which
launch, what is published under which name, and who was used longest ago."""

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import invariant, precondition, rule

from faults import DisabledFaults
from runtime.core.env import Env
from runtime.core.errors import OutOfBlocks
from runtime.core.ledger import Ledger
from runtime.core.owner import Owner
from runtime.core.ports import Ticket
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.prefix import BlockKey
from tests.runtime.fakes import SetClock
from tests.runtime.memory.spans.bench import check_index
from tests.steps import CountedMachine, machine_settings

BLOCKS = 7
KEYS: list[BlockKey] = [bytes([n]) for n in range(5)]
owners = st.sampled_from("abc")


class PagedMachine(CountedMachine):
    def __init__(self) -> None:
        super().__init__()
        self.env = Env(SetClock(), 0, DisabledFaults(), Ledger())
        self.pool = PagedPool(self.env, BLOCKS, 4, prefix_cache=True)
        self.held: dict[str, list[int]] = {}
        self.waiting: list[tuple[Ticket, list[int]]] = []
        self.tickets: list[Ticket] = []
        self.seq = 0
        self.published: dict[BlockKey, int] = {}
        self.idle: list[int] = []
        """Oldest first."""
        self.generations = [0] * BLOCKS

    @property
    def live(self) -> set[int]:
        return {block for blocks in self.held.values() for block in blocks}

    @property
    def limbo(self) -> set[int]:
        return {block for _, blocks in self.waiting for block in blocks} - self.live

    @property
    def free(self) -> set[int]:
        return set(range(BLOCKS)) - self.live - self.limbo - set(self.idle)

    # A rule that finds nothing to do makes what it needs: where few rules can do something, runs are cut short.

    @rule(data=st.data(), owner=owners, n=st.integers(1, 3))
    def take(self, data: st.DataObject, owner: str, n: int) -> None:
        free = self.free
        if n > len(free) + len(self.idle):
            with pytest.raises(OutOfBlocks):
                self.pool.take(Owner(owner), n)
            if self.live:
                self.release(data, whole=True, flying=False)  # a preemption: a pool that is full teaches nothing more
            return
        evicted = self.idle[: max(0, n - len(free))]
        blocks, generations = self.pool.take(Owner(owner), n)
        assert len(set(blocks)) == n and set(blocks) <= free | set(evicted), "a block was given twice, or out of turn"
        for block, generation in zip(blocks, generations, strict=True):
            assert generation > self.generations[block]
            self.generations[block] = generation
        self.idle = self.idle[len(evicted) :]
        self.published = {key: block for key, block in self.published.items() if block not in evicted}
        self.held.setdefault(owner, []).extend(blocks)

    @rule(data=st.data(), keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3))
    def publish(self, data: st.DataObject, keys: list[BlockKey]) -> None:
        """A launch has landed that filled some blocks."""
        if not self.live:
            self.take(data, "a", 2)
        for key in keys:
            if blocks := sorted(self.live - set(self.published.values())):
                block = data.draw(st.sampled_from(blocks))
                self.pool.publish(Owner("a"), [block], [self.generations[block]], [key])
                if key not in self.published:
                    self.published[key] = block

    @rule(data=st.data(), owner=owners)
    def share(self, data: st.DataObject, owner: str) -> None:
        if not self.published:
            self.publish(data, KEYS[:2])
        for key in data.draw(st.lists(st.sampled_from(sorted(self.published)), max_size=2)) if self.published else []:
            block = self.published[key]
            if block not in self.held.get(owner, []):
                generations = self.pool.share(Owner(owner), [block])
                assert generations == [self.generations[block]], "all readers claim one generation"
                self.held.setdefault(owner, []).append(block)
                self.idle = [other for other in self.idle if other != block]

    @precondition(lambda self: len(self.published) > 2)
    @rule(data=st.data())
    def unpublish(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(sorted(self.published.values())))
        self.pool.unpublish(block)
        self.published = {key: one for key, one in self.published.items() if one != block}
        self.idle = [other for other in self.idle if other != block]

    @rule(data=st.data(), whole=st.booleans(), flying=st.booleans())
    def release(self, data: st.DataObject, whole: bool, flying: bool) -> None:
        """Some or all of what somebody holds, under a launch that reads it or under none."""
        if not self.live:
            self.take(data, "b", 3)
        if not self.live:
            return
        owner = data.draw(st.sampled_from(sorted(name for name, blocks in self.held.items() if blocks)))
        held = self.held[owner]
        blocks = held if whole else data.draw(st.lists(st.sampled_from(held), min_size=1, unique=True))
        self._release(owner, blocks, self.ticket(data) if flying else None)

    @rule(data=st.data())
    def all_leave(self, data: st.DataObject) -> None:
        """Each under some launch: shared blocks wait for several."""
        for owner, blocks in self.held.items():
            if blocks:
                self._release(owner, blocks, self.ticket(data))

    def _release(self, owner: str, blocks: list[int], after: Ticket | None) -> None:
        self.pool.release(Owner(owner), blocks, after)
        self.held[owner] = [block for block in self.held[owner] if block not in blocks]
        with pytest.raises(KeyError, match=f"{owner} gives back kv {blocks[-1]}, which it does not hold"):
            self.pool.release(Owner(owner), blocks[-1:], after)
        if after is None:
            self._rest(blocks)
        else:
            self.waiting.append((after, blocks))

    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        ticket = self.ticket(data)
        self.tickets.remove(ticket)
        ticket.done_ns = 1
        self.env.ledger.complete(ticket)
        self.env.ledger.settle()
        while done := next((entry for entry in self.waiting if entry[0] is ticket), None):
            self.waiting.remove(done)
            self._rest(done[1])

    def ticket(self, data: st.DataObject) -> Ticket:
        """One in flight."""
        if len(self.tickets) < 3:
            self.seq += 1
            self.tickets.append(Ticket(self.seq, None, 0))  # type: ignore[arg-type]
        return data.draw(st.sampled_from(self.tickets))

    def _rest(self, blocks: list[int]) -> None:
        used = self.live | self.limbo
        self.idle += [block for block in reversed(blocks) if block not in used and block in self.published.values()]

    @invariant()
    def counts_agree(self) -> None:
        count = self.pool.count()
        assert count.conserved
        assert (count.live, count.limbo, count.cached, count.free) == (
            len(self.live),
            len(self.limbo),
            len(self.idle),
            len(self.free),
        )
        for owner, blocks in self.held.items():
            assert sorted(self.env.ledger.held("kv", owner)) == sorted(blocks)

    @invariant()
    def the_index_is_the_models_and_its_maps_agree(self) -> None:
        check_index(self.pool.index)
        assert len(self.pool.index) == len(self.published) <= BLOCKS
        for key in KEYS:
            found = [self.published[key]] if key in self.published else []
            assert (self.pool.index.find([key]), self.pool.index.knows(key)) == (found, bool(found))

    def teardown(self) -> None:
        assert self.env.events.take() == []


PagedMachine.TestCase.settings = machine_settings(runs=60, steps=50)
TestPagedMachine = PagedMachine.TestCase
