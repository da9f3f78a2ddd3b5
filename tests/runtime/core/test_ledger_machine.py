"""The ledger on its own against a dict of lists: shared owners, double frees, and limbo whose tickets end in any order.

The device's thread does two things, and anything may come between them: it marks a ticket done, then it reports it.
What waits for a ticket may be reused after the first; the engine sees it at the next `settle` after a report.
"""

from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import invariant, precondition, rule

from runtime.core.ledger import Ledger, Limbo
from runtime.core.ports import Ticket
from tests.steps import CountedMachine, machine_settings

ITEMS = range(6)
pools, owners = st.sampled_from(["kv", "io"]), st.sampled_from("abc")


class LedgerMachine(CountedMachine):
    def __init__(self) -> None:
        super().__init__()
        self.woken = 0
        self.ledger = Ledger(self.wake)
        self.held: dict[tuple[str, str], list[int]] = {}
        self.waiting: list[tuple[str, str, list[int], Ticket]] = []
        """Owner, pool, items, ticket; oldest first."""
        self.tickets: list[Ticket] = []
        self.seq = 0
        self.reported: list[Ticket] = []
        """Since the last settle."""
        self.told = 0
        self.came_back: list[tuple[str, list[int]]] = []
        self.wanted_back: list[tuple[str, list[int]]] = []
        self.lines: dict[str, list[str]] = {}
        self.ended: set[str] = set()

    def wake(self) -> None:
        self.woken += 1

    def holders(self, pool: str) -> Counter[int]:
        return Counter(item for (of, _), items in self.held.items() if of == pool for item in items)

    def in_limbo(self, pool: str) -> set[int]:
        return {item for _, of, items, _ in self.waiting if of == pool for item in items} - self.holders(pool).keys()

    @rule(pool=pools, owner=owners, items=st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4, unique=True))
    def acquire(self, pool: str, owner: str, items: list[int]) -> None:
        """What is free, and what others hold: it is shared from then on."""
        mine, limbo = self.held.get((pool, owner), []), self.in_limbo(pool)
        items = [item for item in items if item not in mine and item not in limbo]
        if items:
            alone = not self.holders(pool).keys() & items
            assert self.ledger.acquire(pool, owner, items) == alone
            self.held[pool, owner] = mine + items
            self.note(owner, f"has {items} of {pool}")

    @precondition(lambda self: self.held)
    @rule(data=st.data(), whole=st.booleans(), waits=st.booleans(), holdings=st.integers(1, 3))
    def give_up(self, data: st.DataObject, whole: bool, waits: bool, holdings: int) -> None:
        """Some or all of some holdings, in any order; their reuse waits for one ticket, which may be done by now."""
        ticket = self.ticket(data) if waits else None
        for _ in range(min(holdings, len(self.held))):
            self._give_up(data, whole, ticket)

    def _give_up(self, data: st.DataObject, whole: bool, ticket: Ticket | None) -> None:
        pool, owner = data.draw(st.sampled_from(sorted(self.held)))
        mine = self.held[pool, owner]
        items = data.draw(st.permutations(mine) if whole else st.lists(st.sampled_from(mine), min_size=1, unique=True))
        left = self.ledger.release(pool, owner, items)
        self.held[pool, owner] = [item for item in mine if item not in items]
        if not self.held[pool, owner]:
            del self.held[pool, owner]
        assert left == [item for item in items if item not in self.holders(pool)]
        self.note(owner, f"gives up {items} of {pool}")
        if ticket is not None:
            self.ledger.defer(Limbo(owner, pool, items, ticket, 0, lambda back: self.came_back.append((pool, back))))
            if ticket.done:
                self.wanted_back.append((pool, items))
            else:
                self.waiting.append((owner, pool, items, ticket))
        self.free_again(pool, owner, items)

    @rule(pool=pools, owner=owners, item=st.sampled_from(ITEMS))
    def give_up_what_is_not_held(self, pool: str, owner: str, item: int) -> None:
        if item not in self.held.get((pool, owner), []):
            self.free_again(pool, owner, [item])

    def free_again(self, pool: str, owner: str, items: list[int]) -> None:
        """Refused as a whole: what is held and named before it stays held."""
        mine = self.held.get((pool, owner), [])
        with pytest.raises(KeyError, match=f"{owner} gives back {pool} {items[-1]}, which it does not hold"):
            self.ledger.release(pool, owner, [*mine[:1], items[-1]])

    @rule(owner=owners)
    def forget(self, owner: str) -> None:
        """As when its request has ended."""
        self.ledger.forget(owner)
        if not any(owner == of for _, of in self.held):
            self.ended.add(owner)

    def note(self, owner: str, text: str) -> None:
        self.ledger.note(owner, 1_500_000_000, text)
        before = [] if owner in self.ended else self.lines.get(owner, [])
        self.lines[owner] = [*before, f"1.500s {text}"][-8:]
        self.ended.discard(owner)

    def ticket(self, data: st.DataObject) -> Ticket:
        """One that is not reported yet, and is done or not."""
        if len(self.tickets) < 3:
            self.seq += 1
            self.tickets.append(Ticket(self.seq, None, 0))  # type: ignore[arg-type]
        return data.draw(st.sampled_from(self.tickets))

    @rule(data=st.data(), go_on=st.integers(0, 2))
    def complete(self, data: st.DataObject, go_on: int) -> None:
        """A ticket is done; perhaps it is reported at once, and perhaps the engine looks at once."""
        ticket = self.ticket(data)
        ticket.done_ns = 1
        if go_on:
            self.report(data)
        if go_on > 1:
            self.settle()

    @precondition(lambda self: any(ticket.done for ticket in self.tickets))
    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from([one for one in self.tickets if one.done]))
        self.tickets.remove(ticket)
        self.reported.append(ticket)
        self.told += 1
        self.ledger.complete(ticket)
        assert self.woken == self.told

    @rule()
    def settle(self) -> None:
        assert self.ledger.settle() == self.reported
        if self.reported:
            self.wanted_back += [(pool, items) for _, pool, items, ticket in self.waiting if ticket.done]
            self.waiting = [entry for entry in self.waiting if not entry[3].done]
        self.reported = []

    @invariant()
    def holdings_are_the_models(self) -> None:
        for pool in ("kv", "io"):
            holders = self.holders(pool)
            assert dict(self.ledger.holders(pool)) == holders
            assert self.ledger.live(pool) == len(holders)
            for owner in "abc":
                assert sorted(self.ledger.held(pool, owner)) == sorted(self.held.get((pool, owner), []))
        outstanding = {(pool, owner): n for pool, owner, n in self.ledger.outstanding()}
        assert outstanding == {whose: len(items) for whose, items in self.held.items()}

    @invariant()
    def limbo_is_the_models_and_nothing_left_it_too_early_too_late_or_twice(self) -> None:
        assert [(one.owner, one.pool, one.items, one.after) for one in self.ledger.limbo()] == self.waiting
        assert self.came_back == self.wanted_back
        for pool in ("kv", "io"):
            assert self.ledger.in_limbo(pool) == len(self.in_limbo(pool))

    @invariant()
    def histories_are_the_models(self) -> None:
        for owner in "abc":
            assert self.ledger.history(owner) == "; ".join(self.lines.get(owner, []))


LedgerMachine.TestCase.settings = machine_settings(runs=50, steps=50)
TestLedgerMachine = LedgerMachine.TestCase
