"""The pool of spans on any placement (arena, ring, extents, size classes): handles, owners and limbo.

alloc --> live --free / reset / defrag--> limbo --ticket done--> placement.put_back --> free
            |                               |
            `-- owner in the ledger         `-- the audit shows the owner of each entry
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from runtime.core.env import Env
from runtime.core.ledger import Limbo
from runtime.core.ports import Ticket
from runtime.memory.spans.failures import DoubleFree, LifetimeEscape, StaleSpan, UnknownSpan
from runtime.memory.spans.placement import Place, Placement, minus
from runtime.memory.spans.pool import Move
from runtime.memory.spans.span import ALIGNMENT_MAX, AllocRequest, ResetScope, Span
from runtime.memory.spans.usage import Usage

Returned = Callable[[Place], None]
"""It is called for each place that becomes available: after everything that touches it is done, and before it can be
handed out again."""


class _Held(NamedTuple):
    """A live span."""

    span: Span
    request: AllocRequest
    place: Place


class SpanPool:
    """Implements Pool. Every span is aligned to at least `alignment` bytes, a power of two up to ALIGNMENT_MAX. The
    items of the ledger are generations."""

    def __init__(self, env: Env, name: str, placement: Placement, alignment: int = 1) -> None:
        if not 1 <= alignment <= ALIGNMENT_MAX or alignment & (alignment - 1):
            raise ValueError(f"pool {name}: alignment {alignment}; give a power of two from 1 to {ALIGNMENT_MAX}")
        self.name = name
        self.on_return: list[Returned] = []
        self._env = env
        self._placement = placement
        self._live: dict[int, _Held] = {}
        self._limbo: dict[int, Place] = {}
        self._generation = self._allocs = 0
        self._asked_bytes = self._held_bytes = self._limbo_bytes = 0
        self._alignment = alignment

    def alloc(self, request: AllocRequest) -> Span:
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
            )
        self._allocs += 1
        return self._hand_out(request, place)

    def free(self, span: Span, after: Ticket | None) -> None:
        held = self._held(span, DoubleFree)
        if after is None or after.done:
            self._release(held.request.owner, (held,))
            self._put_back(held.place)
        else:
            self._end((held,), after)

    def reset(self, scope: ResetScope, after: Ticket | None) -> int:
        """See Pool. Each owner gets its own entry in limbo, so that an audit can name it."""
        by_owner: dict[str, list[_Held]] = {}
        for held in self._live.values():
            if scope.covers(held.request):
                by_owner.setdefault(held.request.owner, []).append(held)
        for ended in by_owner.values():
            self._end(ended, after)
        return sum(held.span.bytes for ended in by_owner.values() for held in ended)

    def release_free(self) -> int:
        return self._placement.drop_empty()

    def defrag(self, move: Move, barrier: Ticket | None, *, bytes_max: int | None = None, overlap: bool = False) -> int:
        """See Pool. First, spans are relocated into holes elsewhere: the gap grows by as many bytes as are moved. With
        `overlap`, the others then slide, farthest first, so that each makes room for the next. Sliding costs more."""
        placement, left_bytes = self._placement, math.inf if bytes_max is None else bytes_max
        placement.tidy()
        placement.plan_moves(left_bytes)
        order = sorted(self._live.values(), key=lambda held: placement.rank(held.place), reverse=True)
        moved = self._move_all(order, placement.relocate, move, barrier, left_bytes)
        if overlap and (barrier is None or barrier.done):
            placement.plan_moves(left_bytes - moved)
            order = [held for held in self._live.values() if placement.distance(held.place)]
            order.sort(key=lambda held: -placement.distance(held.place))
            moved += self._move_all(order, placement.compact, move, barrier, left_bytes - moved)
        placement.tidy()
        return moved

    def find(self, span: Span) -> AllocRequest:
        return self._held(span, StaleSpan).request

    def live(self) -> Iterator[tuple[Span, AllocRequest]]:
        return ((held.span, held.request) for held in list(self._live.values()))

    def usage(self) -> Usage:
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
        return self._held_bytes + self._limbo_bytes

    def _hand_out(self, request: AllocRequest, place: Place) -> Span:
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
        """End holdings of one owner. Their places become available once all of `after` is done."""
        owner = ended[0].request.owner
        self._release(owner, ended)
        self._limbo.update((held.span.generation, held.place) for held in ended)
        self._limbo_bytes += sum(held.place.bytes for held in ended)
        self._return_places(owner, [held.span.generation for held in ended], after)

    def _return_places(self, owner: str, generations: list[int], after: Sequence[Ticket | None]) -> None:
        for ticket in after:
            if ticket is not None and not ticket.done:
                now_ns = self._env.clock.now_ns()
                back = partial(self._return_places, owner, after=after)
                self._env.ledger.defer(Limbo(owner, self.name, generations, ticket, now_ns, back))
                return
        for generation in generations:
            place = self._limbo.pop(generation)
            self._limbo_bytes -= place.bytes
            self._put_back(place)

    def _release(self, owner: str, ended: Sequence[_Held]) -> None:
        self._env.ledger.release(self.name, owner, [held.span.generation for held in ended])
        for held in ended:
            del self._live[held.span.generation]
            self._asked_bytes -= held.span.bytes
            self._held_bytes -= held.place.bytes

    def _put_back(self, place: Place) -> None:
        for call in self.on_return:
            call(place)
        self._placement.put_back(place)

    def _move_all(
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
        new = self._live[self._hand_out(held.request, place).generation]
        try:
            copied = move(held.span, new.span, held.span.bytes)
        except BaseException:
            self._end((new._replace(place=minus(place, held.place)),))
            self._held_bytes += minus(place, held.place).bytes - place.bytes
            raise
        self._end((held._replace(place=minus(held.place, place)),), barrier, copied)
        self._held_bytes += minus(held.place, place).bytes - held.place.bytes
