"""Mutants of arena, ring, extents and size classes, and of the pool that they share."""

from typing import Any

from runtime.memory.spans.arena import Arena
from runtime.memory.spans.classes import CLASSES, Classes
from runtime.memory.spans.extents import Extents
from runtime.memory.spans.placement import Place
from runtime.memory.spans.ring import Ring
from runtime.memory.spans.span_pool import SpanPool
from tests.mutants.mutant import Function, Mutant, Subject
from tests.runtime.memory.spans.test_span_pool_machines import (
    ArenaMachine,
    ClassesMachine,
    ExtentsMachine,
    RingMachine,
)

GRANULE = 256


def without_its_ticket(sound: Function) -> Function:
    """free(span, after), reset(scope, after): the launch that still reads it is not waited for."""
    return lambda pool, what, after: sound(pool, what, None)


def one_granule_short(sound: Function) -> Function:
    """place(size, alignment) with the size rounded down to granules, not up."""
    return lambda self, size, alignment: sound(self, max(GRANULE, size // GRANULE * GRANULE), alignment)


def unaligned(sound: Function) -> Function:
    return lambda self, size, alignment: sound(self, size, 1)


def falls_to_the_base(sound: Function) -> Function:
    """The seed's `current = base`: right when all is put back, and only then."""

    def put_back(self: Arena, place: Place) -> None:
        sound(self, place)
        self._stacks[place.segment].cursor = 0

    return put_back


def overwrites_the_oldest(sound: Function) -> Function:
    def place(self: Ring, size: int, alignment: int) -> Place | None:
        place = sound(self, size, alignment)
        while place is None and self._ranges:
            oldest = self._ranges[0]
            self.put_back(Place(self._segment or 0, oldest.start % self._capacity, oldest.end - oldest.start))
            place = sound(self, size, alignment)
        return place

    return place


def takes_those_before_it_along(sound: Function) -> Function:
    """As if all came back in the order in which they were taken."""

    def put_back(self: Ring, place: Place) -> None:
        last = self._at[place.offset]
        for taken in self._ranges:
            if taken.start <= last.start:
                taken.back = True
        sound(self, place)

    return put_back


def runs_over_the_end(sound: Function) -> Function:
    return lambda self, size, alignment: -(-self._head // alignment) * alignment


def one_granule_too_many(sound: Function) -> Function:
    """The boundary tag behind the piece is read one granule too far."""
    return lambda self, place: sound(self, place._replace(bytes=place.bytes + GRANULE))


def never_merges(sound: Function) -> Function:
    def put_back(self: Extents, place: Place) -> None:
        self._free_bytes += place.bytes
        self._add_hole(place.segment, place.offset, place.end)

    return put_back


def before_its_copy(sound: Function) -> Function:
    """_end(held, *launches): of the launches to wait for, the copy out of the old place is forgotten."""
    return lambda self, held, *after: sound(self, held, *after[:1])


def class_below(sound: Function) -> Function:
    def class_of(self: Classes, size: int, alignment: int) -> int | None:
        found: int | None = sound(self, size, alignment)
        return found if found is None or found == CLASSES[0] else CLASSES[CLASSES.index(found) - 1]

    return class_of


def stays_on_the_free_list(sound: Function) -> Function:
    def block(self: Classes, size: int, home: int) -> Place:
        place: Place = sound(self, size, home)
        self._runs[home].free.insert(0, place.offset)
        self._open[size][home] = self._runs[home]
        return place

    return block


def closes_with_one_block_out(sound: Function) -> Function:
    def put_back(self: Classes, place: Place) -> None:
        sound(self, place)
        run = self._runs.get(place.run)
        if run is not None and len(run.free) == run.blocks - 1:
            self._close(place.run)

    return put_back


def keeps_its_spares(sound: Function) -> Function:
    def tidy(self: Any) -> None:
        pass

    return tidy


LIMBO = (
    Mutant("a freed span is reused before its launch is done", SpanPool, "free", without_its_ticket),
    Mutant("a reset does not wait for the launch in flight", SpanPool, "reset", without_its_ticket),
)

SUBJECTS = (
    Subject(
        ArenaMachine,
        (
            *LIMBO,
            Mutant("the cursor falls to the base under an open span", Arena, "put_back", falls_to_the_base),
            Mutant("sizes are rounded down", Arena, "place", one_granule_short),
            Mutant("alignment is forgotten", Arena, "place", unaligned),
        ),
    ),
    Subject(
        RingMachine,
        (
            *LIMBO,
            Mutant("a full ring overwrites its oldest", Ring, "place", overwrites_the_oldest),
            Mutant("who comes back takes those before it along", Ring, "put_back", takes_those_before_it_along),
            Mutant("a place runs over the end", Ring, "_start", runs_over_the_end),
        ),
    ),
    Subject(
        ExtentsMachine,
        (
            *LIMBO,
            Mutant("a piece comes back one granule too long", Extents, "put_back", one_granule_too_many),
            Mutant("neighbours never merge", Extents, "put_back", never_merges),
            Mutant("what a defrag moved is reused before its copy", SpanPool, "_end", before_its_copy),
        ),
    ),
    Subject(
        ClassesMachine,
        (
            *LIMBO,
            Mutant("the class below is taken", Classes, "class_of", class_below),
            Mutant("a block stays on the free list", Classes, "_take_block", stays_on_the_free_list),
            Mutant("a run is closed with one block out", Classes, "put_back", closes_with_one_block_out),
            Mutant("spares are never given up", Classes, "tidy", keeps_its_spares),
        ),
    ),
)
