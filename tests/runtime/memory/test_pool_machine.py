"""The paged pool and the ledger's limbo against a model of two dicts: who holds what, what waits for which launch."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from faults import NullFaults
from runtime.core.env import Env
from runtime.core.errors import OutOfBlocks
from runtime.core.ledger import Ledger
from runtime.core.ports import Ticket
from runtime.memory.paged import PagedPool
from tests.runtime.fakes import SetClock

BLOCKS = 12


class PoolMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.env = Env(SetClock(), 0, NullFaults(), Ledger())
        self.pool = PagedPool(self.env, BLOCKS, 4)
        self.held: dict[str, list[int]] = {}
        self.waiting: dict[int, list[int]] = {}
        self.tickets: list[Ticket] = []

    @rule(owner=st.sampled_from("abc"), n=st.integers(1, 5))
    def take(self, owner: str, n: int) -> None:
        taken = sum(map(len, self.held.values())) + sum(map(len, self.waiting.values()))
        if n > BLOCKS - taken:
            with pytest.raises(OutOfBlocks):
                self.pool.take(owner, n)
            return
        blocks, generations = self.pool.take(owner, n)
        in_use = [block for held in (*self.held.values(), *self.waiting.values()) for block in held]
        assert len(set(blocks)) == n and not set(blocks) & set(in_use), "a block was given twice"
        assert len(generations) == n
        self.held.setdefault(owner, []).extend(blocks)

    @rule()
    def launch(self) -> None:
        self.tickets.append(Ticket(len(self.tickets), None, 0))  # type: ignore[arg-type]

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data(), flying=st.booleans())
    def release(self, data: st.DataObject, flying: bool) -> None:
        owner = data.draw(st.sampled_from(sorted(name for name, blocks in self.held.items() if blocks)))
        blocks = data.draw(st.lists(st.sampled_from(self.held[owner]), min_size=1, unique=True))
        after = self.tickets[-1] if flying and self.tickets else None
        self.pool.release(owner, blocks, after)
        self.held[owner] = [block for block in self.held[owner] if block not in blocks]
        if after is not None and not after.done:
            self.waiting.setdefault(after.seq, []).extend(blocks)

    @precondition(lambda self: any(not ticket.done for ticket in self.tickets))
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from([one for one in self.tickets if not one.done]))
        ticket.done_ns = 1
        self.env.ledger.complete(ticket)
        self.env.ledger.settle()
        self.waiting.pop(ticket.seq, None)

    @rule(owner=st.sampled_from("abc"), block=st.integers(0, BLOCKS - 1))
    def release_what_is_not_held(self, owner: str, block: int) -> None:
        if block in self.held.get(owner, []):
            return
        with pytest.raises(KeyError, match="does not hold"):
            self.pool.release(owner, [block], None)

    @invariant()
    def counts_agree(self) -> None:
        live, limbo = sum(map(len, self.held.values())), sum(map(len, self.waiting.values()))
        count = self.pool.count()
        assert (count.live, count.limbo, count.free) == (live, limbo, BLOCKS - live - limbo)
        for owner, blocks in self.held.items():
            assert sorted(self.env.ledger.held("kv", owner)) == sorted(blocks)


PoolMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestPoolMachine = PoolMachine.TestCase
