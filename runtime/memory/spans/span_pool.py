"""The pool that arena, ring and size classes share: handles, owners, limbo. Where a span lies, its placement says.

alloc --> live --free / reset / defrag--> limbo --ticket done--> placement.put_back --> free
            |                               |
            `-- owner in the ledger         `-- counted, and shown by the audit with its owner
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from runtime.core.env import Env
from runtime.core.ledger import Limbo
from runtime.core.ports import Ticket
from runtime.memory.spans.failures import DoubleFree, LifetimeEscape, StaleSpan, UnknownSpan
from runtime.memory.spans.placement import Place, Placement, minus
from runtime.memory.spans.pool import Move, Returned
from runtime.memory.spans.span import ALIGNMENT_MAX, AllocRequest, ResetScope, Span
from runtime.memory.spans.usage import Usage


class _Held(NamedTuple):
    span: Span
    request: AllocRequest
    place: Place


class SpanPool:
    """See Pool. The ledger's items are generations."""

    def __init__(self, env: Env, name: str, placement: Placement, alignment: int = 1) -> None:
        self.name = name
        self._env = env
        self._placement = placement
        self._live: dict[int, _Held] = {}
        self._limbo: dict[int, Place] = {}
        self._generation = self._allocs = 0
        self._asked_bytes = self._held_bytes = self._limbo_bytes = 0
        self._on_return: list[Returned] = []
        self.set_alignment(alignment)

    def alloc(self, request: AllocRequest) -> Span:
        """See Pool."""
        placement = self._placement
        if request.lifetime > placement.longest:
            raise LifetimeEscape(
                f"pool {self.name} holds nothing longer than {placement.longest.name.lower()}; asked {request}"
            )
        place = placement.place(request.bytes, max(request.alignment, self._alignment))
        if place is None:
            free, largest = placement.free_bytes, placement.largest_free_bytes
            raise placement.full(
                f"pool {self.name}: asked {request}; {free} B are free, {largest} B in one piece, "
                f"{placement.total_bytes} B in all",
                request.bytes,
                free,
                largest,
            )
        self._allocs += 1
        return self._issue(request, place)

    def free(self, span: Span, after: Ticket | None) -> None:
        """See Pool."""
        held = self._held(span, DoubleFree)
        if after is None or after.done:
            self._let_go(held.request.owner, (held,))
            self._put_back(held.place)
        else:
            self._end((held,), after)

    def reset(self, scope: ResetScope, after: Ticket | None) -> int:
        """See Pool. One entry of limbo an owner, so an audit can still say whose they are."""
        by_owner: dict[str, list[_Held]] = {}
        for held in self._live.values():
            if scope.covers(held.request):
                by_owner.setdefault(held.request.owner, []).append(held)
        for ended in by_owner.values():
            self._end(ended, after)
        return sum(held.span.bytes for ended in by_owner.values() for held in ended)

    def release_free(self) -> int:
        """See Pool."""
        return self._placement.drop_empty()

    def defrag(self, move: Move, barrier: Ticket | None, *, bytes_max: int | None = None, overlap: bool = False) -> int:
        """See Pool. First each span beside the gap goes into a hole elsewhere, which widens the gap by as many bytes as
        are moved. What finds none slides, farthest first, so that each makes room for the next: dearer by far."""
        placement, left_bytes = self._placement, math.inf if bytes_max is None else bytes_max
        placement.tidy()
        placement.plan_moves(left_bytes)
        order = sorted(self._live.values(), key=lambda held: placement.rank(held.place), reverse=True)
        moved = self._shift(order, placement.relocate, move, barrier, left_bytes)
        if overlap and (barrier is None or barrier.done):
            placement.plan_moves(left_bytes - moved)
            order = [held for held in self._live.values() if placement.distance(held.place)]
            order.sort(key=lambda held: -placement.distance(held.place))
            moved += self._shift(order, placement.compact, move, barrier, left_bytes - moved)
        placement.tidy()
        return moved

    def find(self, span: Span) -> AllocRequest:
        """See Pool."""
        return self._held(span, StaleSpan).request

    def live(self) -> Iterator[tuple[Span, AllocRequest]]:
        """See Pool."""
        return ((held.span, held.request) for held in list(self._live.values()))

    def usage(self) -> Usage:
        """See Pool."""
        placement = self._placement
        return Usage(
            pool=self.name,
            total_bytes=placement.total_bytes,
            asked_bytes=self._asked_bytes,
            held_bytes=self._held_bytes,
            limbo_bytes=self._limbo_bytes,
            free_bytes=placement.free_bytes,
            largest_free_bytes=placement.largest_free_bytes,
            pinned_bytes=placement.pinned_bytes,
            live=len(self._live),
            allocs=self._allocs,
            hits=placement.hits,
        )

    @property
    def taken_bytes(self) -> int:
        """See Pool."""
        return self._held_bytes + self._limbo_bytes

    def set_alignment(self, alignment: int) -> None:
        """See Pool."""
        if not 1 <= alignment <= ALIGNMENT_MAX or alignment & (alignment - 1):
            raise ValueError(f"pool {self.name}: alignment {alignment}; give a power of two from 1 to {ALIGNMENT_MAX}")
        self._alignment = alignment

    def on_return(self, call: Returned) -> None:
        """See Pool."""
        self._on_return.append(call)

    def check(self) -> None:
        """See Pool."""
        assert self.usage().conserved, f"bytes of pool {self.name} don't add up: {self.usage()}"
        places = sorted([*(held.place for held in self._live.values()), *self._limbo.values()])
        for one, after in pairwise(places):
            assert one.segment != after.segment or one.end <= after.offset, f"{one} and {after} overlap"

    def _issue(self, request: AllocRequest, place: Place) -> Span:
        self._generation += 1
        span = Span(self.name, place.segment, place.offset, request.bytes, self._generation)
        self._live[span.generation] = _Held(span, request, place)
        self._asked_bytes += request.bytes
        self._held_bytes += place.bytes
        self._env.ledger.acquire(self.name, request.owner, (span.generation,))
        return span

    def _held(self, span: Span, gone: type[StaleSpan]) -> _Held:
        held = self._live.get(span.generation)
        if held is not None and held.span == span:
            return held
        if held is None and span.pool == self.name and 0 < span.generation <= self._generation:
            raise gone(f"{span} of pool {self.name} was freed, reset or moved before")
        raise UnknownSpan(f"pool {self.name} never handed out {span}")

    def _end(self, ended: Sequence[_Held], *after: Ticket | None) -> None:
        """Holdings of one owner end; their places follow once all of `after` is done."""
        owner = ended[0].request.owner
        self._let_go(owner, ended)
        self._limbo.update((held.span.generation, held.place) for held in ended)
        self._limbo_bytes += sum(held.place.bytes for held in ended)
        self._return(owner, [held.span.generation for held in ended], after)

    def _return(self, owner: str, generations: list[int], after: Sequence[Ticket | None]) -> None:
        for ticket in after:
            if ticket is not None and not ticket.done:
                now_ns = self._env.clock.now_ns()
                back = partial(self._return, owner, after=after)
                self._env.ledger.defer(Limbo(owner, self.name, generations, ticket, now_ns, back))
                return
        for generation in generations:
            place = self._limbo.pop(generation)
            self._limbo_bytes -= place.bytes
            self._put_back(place)

    def _let_go(self, owner: str, ended: Sequence[_Held]) -> None:
        self._env.ledger.release(self.name, owner, [held.span.generation for held in ended])
        for held in ended:
            del self._live[held.span.generation]
            self._asked_bytes -= held.span.bytes
            self._held_bytes -= held.place.bytes

    def _put_back(self, place: Place) -> None:
        for call in self._on_return:
            call(place)
        self._placement.put_back(place)

    def _shift(
        self,
        order: Sequence[_Held],
        to: Callable[[Place, int], Place | None],
        move: Move,
        barrier: Ticket | None,
        left_bytes: float,
    ) -> int:
        moved = 0
        for held in order:
            if moved + held.span.bytes <= left_bytes:
                place = to(held.place, max(held.request.alignment, self._alignment))
                if place is not None:
                    self._move(held, place, move, barrier)
                    moved += held.span.bytes
        return moved

    def _move(self, held: _Held, place: Place, move: Move, barrier: Ticket | None) -> None:
        new = self._live[self._issue(held.request, place).generation]
        try:
            copied = move(held.span, new.span, held.span.bytes)
        except BaseException:
            self._end((new._replace(place=minus(place, held.place)),))
            self._held_bytes += minus(place, held.place).bytes - place.bytes
            raise
        self._end((held._replace(place=minus(held.place, place)),), barrier, copied)
        self._held_bytes += minus(held.place, place).bytes - held.place.bytes
