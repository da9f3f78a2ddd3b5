"""Mutants of torch segments, of KV on the host, and of launches that take memory in virtual time."""

from collections.abc import Callable
from typing import Any

from runtime.device.accounted import AccountedModel
from runtime.device.torch_segments import TorchSegments
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.swap import SwapSpace
from runtime.memory.spans.placement import Place
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, ResetScope, Span
from tests.mutants.mutant import Function, Mutant, Subject
from tests.runtime.device.test_accounted import Lost
from tests.runtime.device.test_swap_defrag import Hosted
from tests.runtime.device.test_torch_segments import Contents


def one_byte_short(sound: Function) -> Function:
    return lambda self, old, new, size_bytes: sound(self, old, new, size_bytes - 1)


def not_the_last_granule(sound: Function) -> Function:
    def poison(self: TorchSegments, pool: str) -> Callable[[Place], None]:
        fill = sound(self, pool)
        return lambda place: fill(Place(place.segment, place.offset, max(0, place.bytes - 256)))

    return poison


def keeps_the_room(sound: Function) -> Function:
    def give_back(self: TorchSegments, pool: str, segment: int, size_bytes: int) -> None:
        sound(self, pool, segment, size_bytes)
        self.taken_bytes += size_bytes

    return give_back


def nothing(sound: Function) -> Function:
    def nothing_at_all(*_: Any) -> None:
        return None

    return nothing_at_all


def forgets_the_holder(sound: Function) -> Function:
    def replace_handle(self: SwapSpace, old: Span, new: Span) -> None:
        swapped = self._held[old]
        sound(self, old, new)
        swapped.span = old

    return replace_handle


def without_its_ticket(sound: Function) -> Function:
    return lambda self, owner, blocks, after, **of: sound(self, owner, blocks, None, **of)


def resets_all_steps(sound: Function) -> Function:
    def run(self: AccountedModel, work: Any) -> Any:
        said = sound(self, work)
        self.pools[PoolKind.ACTIVATION].reset(ResetScope(Lifetime.GRAPH), None)
        return said

    return run


def under_one_name(sound: Function) -> Function:
    return lambda self, work, session: sound(self, work, "step-0")


def keeps_its_scratch(sound: Function) -> Function:
    def take(self: AccountedModel, work: Any, session: str) -> None:
        sound(self, work, session)
        self.pools[PoolKind.WORKSPACE].alloc(AllocRequest(256, pool=PoolKind.WORKSPACE))

    return take


SUBJECTS = (
    Subject(
        Contents,
        (
            Mutant("a move leaves the last byte behind", TorchSegments, "move", one_byte_short),
            Mutant("poison leaves the last granule out", TorchSegments, "poison", not_the_last_granule),
            Mutant("a segment that goes keeps its room", TorchSegments, "give_back", keeps_the_room),
        ),
    ),
    Subject(
        Hosted,
        (
            Mutant("a defrag copies nothing", TorchSegments, "move", nothing),
            Mutant("who holds a moved span is not told", SwapSpace, "replace_handle", forgets_the_holder),
            Mutant("spans are moved under a copy in flight", SwapSpace, "barrier", nothing),
            Mutant("blocks are reused before their copy is done", PagedPool, "release", without_its_ticket),
        ),
    ),
    Subject(
        Lost,
        (
            Mutant("the next reset hides a lost one", AccountedModel, "run", resets_all_steps),
            Mutant("every step takes under one name", AccountedModel, "_take", under_one_name),
            Mutant("a launch keeps its scratch", AccountedModel, "_take", keeps_its_scratch),
        ),
    ),
)
