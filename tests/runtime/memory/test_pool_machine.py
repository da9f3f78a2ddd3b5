"""The paged pool, its prefix index and the ledger's limbo against a plain model: who holds what, what waits for which
launch, what is published under which name, and who was used longest ago."""

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import invariant, precondition, rule

from faults import NullFaults
from runtime.core.env import Env
from runtime.core.errors import OutOfBlocks
from runtime.core.ledger import Ledger
from runtime.core.ports import Ticket
from runtime.memory.paged import PagedPool
from runtime.memory.prefix import BlockKey
from tests.runtime.fakes import SetClock
from tests.steps import CountedMachine, machine_settings

BLOCKS = 7
KEYS = [BlockKey(bytes([n] * 16), bytes([n])) for n in range(5)]
owners = st.sampled_from("abc")


class PagedMachine(CountedMachine):
    def __init__(self) -> None:
        super().__init__()
        self.env = Env(SetClock(), 0, NullFaults(), Ledger())
        self.pool = PagedPool(self.env, BLOCKS, 4, prefix_cache=True)
        self.held: dict[str, list[int]] = {}
        self.waiting: list[tuple[Ticket, list[int]]] = []
        self.tickets: list[Ticket] = []
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

    @rule(owner=owners, n=st.integers(1, 3))
    def take(self, owner: str, n: int) -> None:
        free = self.free
        if n > len(free) + len(self.idle):
            with pytest.raises(OutOfBlocks):
                self.pool.take(owner, n)
            return
        evicted = self.idle[: max(0, n - len(free))]
        blocks, generations = self.pool.take(owner, n)
        assert len(set(blocks)) == n and set(blocks) <= free | set(evicted), "a block was given twice, or out of turn"
        for block, generation in zip(blocks, generations, strict=True):
            assert generation > self.generations[block]
            self.generations[block] = generation
        self.idle = self.idle[len(evicted) :]
        self.published = {key: block for key, block in self.published.items() if block not in evicted}
        self.held.setdefault(owner, []).extend(blocks)

    @precondition(lambda self: self.live - set(self.published.values()))
    @rule(data=st.data(), key=st.sampled_from(KEYS))
    def publish(self, data: st.DataObject, key: BlockKey) -> None:
        block = data.draw(st.sampled_from(sorted(self.live - set(self.published.values()))))
        self.pool.publish("a", block, self.generations[block], key)
        self.published.setdefault(key, block)

    @rule(owner=owners, key=st.sampled_from(KEYS))
    def share(self, owner: str, key: BlockKey) -> None:
        block = self.published.get(key)
        assert self.pool.index.find([key]) == ([] if block is None else [block])
        if block is None or block in self.held.get(owner, []):
            return
        assert self.pool.share(owner, [block]) == [self.generations[block]], "every reader claims the same generation"
        self.held.setdefault(owner, []).append(block)
        if block in self.idle:
            self.idle.remove(block)

    @precondition(lambda self: self.published)
    @rule(data=st.data())
    def unpublish(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(sorted(self.published.values())))
        self.pool.unpublish(block)
        self.published = {key: one for key, one in self.published.items() if one != block}
        if block in self.idle:
            self.idle.remove(block)

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data(), flying=st.booleans())
    def release(self, data: st.DataObject, flying: bool) -> None:
        owner = data.draw(st.sampled_from(sorted(name for name, blocks in self.held.items() if blocks)))
        blocks = data.draw(st.lists(st.sampled_from(self.held[owner]), min_size=1, unique=True))
        after = data.draw(st.sampled_from(self.tickets)) if flying and self.tickets else None
        if flying and (after is None or after.done):
            after = self.launch()
        self.pool.release(owner, blocks, after)
        self.held[owner] = [block for block in self.held[owner] if block not in blocks]
        if after is not None and not after.done:
            self.waiting.append((after, blocks))
        else:
            self._rest(blocks)

    @precondition(lambda self: any(not ticket.done for ticket in self.tickets))
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from([one for one in self.tickets if not one.done]))
        ticket.done_ns = 1
        self.env.ledger.complete(ticket)
        self.env.ledger.settle()
        while done := next((entry for entry in self.waiting if entry[0] is ticket), None):
            self.waiting.remove(done)
            self._rest(done[1])

    def launch(self) -> Ticket:
        self.tickets.append(Ticket(len(self.tickets), None, 0))  # type: ignore[arg-type]
        return self.tickets[-1]

    def _rest(self, blocks: list[int]) -> None:
        used = self.live | self.limbo
        self.idle += [block for block in reversed(blocks) if block not in used and block in self.published.values()]

    @rule(owner=owners, block=st.integers(0, BLOCKS - 1))
    def release_what_is_not_held(self, owner: str, block: int) -> None:
        if block in self.held.get(owner, []):
            return
        with pytest.raises(KeyError, match="does not hold"):
            self.pool.release(owner, [block], None)

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
        self.pool.index.check()
        assert len(self.pool.index) == len(self.published) <= BLOCKS
        for key in KEYS:
            assert self.pool.index.knows(key) == (key in self.published)

    def teardown(self) -> None:
        assert self.env.events.take() == []


PagedMachine.TestCase.settings = machine_settings(runs=120, steps=50)
TestPagedMachine = PagedMachine.TestCase
