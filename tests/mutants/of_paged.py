"""Mutants of the paged KV pool with its prefix cache."""

from collections.abc import Sequence

from runtime.core.ledger import Ledger
from runtime.core.owner import Owner
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.prefix import BlockKey, PrefixIndex
from runtime.memory.kv.tags import TagPlane
from tests.mutants.mutant import Function, Mutant, Subject
from tests.mutants.of_ledger import count_is_not_lowered, counts_what_others_hold, the_first_to_leave_takes_it_along
from tests.runtime.memory.spans.test_pool_machine import PagedMachine


def without_its_ticket(sound: Function) -> Function:
    return lambda self, owner, blocks, after, **words: sound(self, owner, blocks, None, **words)


def first_launch_frees_it(sound: Function) -> Function:
    """Of two launches that touch a block, the first to end gives it back."""

    def out_of_limbo(self: PagedPool, blocks: list[int]) -> None:
        for block in blocks:
            self._pins.pop(block, None)
        self._give_back(blocks)

    return out_of_limbo


def held_stays_in_line(sound: Function) -> Function:
    return lambda self, block: self._generations[block]


def one_too_many_is_evicted(sound: Function) -> Function:
    return lambda self, n, *words: sound(self, n + (n < self.index.evictable), *words)


def evicts_for_nothing(sound: Function) -> Function:
    """What is cached goes, and then it is too little all the same."""

    def evict(self: PagedPool, n: int, owner: Owner) -> bool:
        few = min(n, self.index.evictable)
        return bool(sound(self, few, owner)) and few == n

    return evict


def newest_goes_first(sound: Function) -> Function:
    def evict(self: PrefixIndex, n: int) -> list[int]:
        blocks = [self._evictable.popitem(last=True)[0] for _ in range(n)]
        self.forget(blocks)
        return blocks

    return evict


def the_second_is_found(sound: Function) -> Function:
    """Of two blocks that hold the same, and so the first is in the index and nobody can find it."""

    def add(self: PrefixIndex, blocks: Sequence[int], keys: Sequence[BlockKey], generations: Sequence[int]) -> int:
        for key in keys:
            self._blocks.pop(key, None)
        added: int = sound(self, blocks, keys, generations)
        return added

    return add


def generation_stays(sound: Function) -> Function:
    def hand_out(self: TagPlane, blocks: Sequence[int]) -> list[int]:
        generations: list[int] = sound(self, blocks)
        for block in blocks:
            self._generations[block] -= 1
        return [generation - 1 for generation in generations]

    return hand_out


def is_lost(sound: Function) -> Function:
    """A cached block that turns out damaged is not found any more, nor is it free."""

    def unpublish(self: PagedPool, block: int) -> None:
        self.index.forget([block])

    return unpublish


def stays_known(sound: Function) -> Function:
    """Out of the index, and its name still leads to it."""

    def gone(self: PrefixIndex, blocks: Sequence[int] | int) -> list[int]:
        names = self._blocks.copy()
        evictable: list[int] = sound(self, blocks)
        self._blocks.update(names)
        return evictable

    return gone


SUBJECTS = (
    Subject(
        PagedMachine,
        (
            Mutant("blocks do not wait for the launch that reads them", PagedPool, "release", without_its_ticket),
            Mutant("of two launches the first frees the block", PagedPool, "_return_from_limbo", first_launch_frees_it),
            Mutant("a held block is evicted", PrefixIndex, "hold", held_stays_in_line),
            Mutant("who leaves first takes a shared block along", Ledger, "release", the_first_to_leave_takes_it_along),
            Mutant("the count of owners is not lowered", Ledger, "release", count_is_not_lowered),
            Mutant("limbo counts what somebody holds", Ledger, "in_limbo", counts_what_others_hold),
            Mutant("one block too many is evicted", PagedPool, "_evict", one_too_many_is_evicted),
            Mutant("a take that fails evicts all the same", PagedPool, "_evict", evicts_for_nothing),
            Mutant("the newest is evicted first", PrefixIndex, "evict", newest_goes_first),
            Mutant("of two that hold the same the second is found", PrefixIndex, "add", the_second_is_found),
            Mutant("an evicted block keeps its name", PrefixIndex, "evict", stays_known),
            Mutant("a damaged block keeps its name", PrefixIndex, "forget", stays_known),
            Mutant("a block is given on in its old generation", TagPlane, "hand_out", generation_stays),
            Mutant("a damaged cached block is lost", PagedPool, "unpublish", is_lost),
        ),
    ),
)
