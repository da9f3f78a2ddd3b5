"""Mutants of the ledger: who holds what, and limbo."""

from collections.abc import Sequence

from runtime.core.ledger import Ledger, Limbo
from runtime.core.ports import Ticket
from tests.mutants.mutant import Function, Mutant, Subject
from tests.runtime.core.test_ledger_machine import LedgerMachine


def the_first_to_leave_takes_it_along(sound: Function) -> Function:
    def release(self: Ledger, pool: str, owner: str, items: Sequence[int]) -> Sequence[int]:
        sound(self, pool, owner, items)
        for item in items:
            self._live[pool].discard(item)
            self._extra_owners[pool].pop(item, None)
        return items

    return release


def count_is_not_lowered(sound: Function) -> Function:
    def release(self: Ledger, pool: str, owner: str, items: Sequence[int]) -> Sequence[int]:
        before = dict(self._extra_owners[pool])
        sound(self, pool, owner, items)
        self._live[pool].update(items)
        self._extra_owners[pool].update(before)
        return []

    return release


def double_free_passes(sound: Function) -> Function:
    def release(self: Ledger, pool: str, owner: str, items: Sequence[int]) -> Sequence[int]:
        held = self.held(pool, owner)
        left: Sequence[int] = sound(self, pool, owner, [item for item in items if item in held])
        return left

    return release


def half_of_it_is_done(sound: Function) -> Function:
    """Refused at the item that is not held, and those before it are gone."""

    def release(self: Ledger, pool: str, owner: str, items: Sequence[int]) -> Sequence[int]:
        return [left for item in items for left in sound(self, pool, owner, [item])]

    return release


def reuse_at_once(sound: Function) -> Function:
    return lambda self, limbo: limbo.back(limbo.items)


def any_ticket_frees_all(sound: Function) -> Function:
    def settle(self: Ledger) -> list[Ticket]:
        done: list[Ticket] = sound(self)
        if done:
            waiting, self._limbo = self._limbo, []
            for entry in waiting:
                entry.back(entry.items)
        return done

    return settle


def one_entry_a_ticket(sound: Function) -> Function:
    """Of several holdings that wait for one ticket, only the first goes back."""

    def settle(self: Ledger) -> list[Ticket]:
        first: dict[int, Limbo] = {}
        for entry in self._limbo:
            first.setdefault(entry.after.seq, entry)
        later = [entry for entry in self._limbo if first[entry.after.seq] is not entry]
        self._limbo = list(first.values())
        done: list[Ticket] = sound(self)
        self._limbo += later
        return done

    return settle


def counts_what_others_hold(sound: Function) -> Function:
    return lambda self, pool: len({item for entry in self._limbo if entry.pool == pool for item in entry.items})


def forgets_who_leaks(sound: Function) -> Function:
    return lambda self, owner: self._events.pop(owner, None)


def wakes_nobody(sound: Function) -> Function:
    return lambda self, ticket: self._completed.append(ticket)


SUBJECTS = (
    Subject(
        LedgerMachine,
        (
            Mutant("who leaves first takes a shared item along", Ledger, "release", the_first_to_leave_takes_it_along),
            Mutant("the count of owners is not lowered", Ledger, "release", count_is_not_lowered),
            Mutant("a double free passes", Ledger, "release", double_free_passes),
            Mutant("a refused release is half done", Ledger, "release", half_of_it_is_done),
            Mutant("limbo does not wait", Ledger, "defer", reuse_at_once),
            Mutant("any ticket ends all of limbo", Ledger, "settle", any_ticket_frees_all),
            Mutant("a second holding of one ticket never returns", Ledger, "settle", one_entry_a_ticket),
            Mutant("limbo counts what somebody holds", Ledger, "in_limbo", counts_what_others_hold),
            Mutant("a leaking owner's history is dropped", Ledger, "forget", forgets_who_leaks),
            Mutant("a completion wakes nobody", Ledger, "complete", wakes_nobody),
        ),
    ),
)
