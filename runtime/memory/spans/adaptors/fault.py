"""Fault: crosses the fault points of a pool (points.py)."""

from faults.points import Kind
from runtime.core.env import Env
from runtime.core.ports import Ticket
from runtime.memory.spans.adaptors.base import Adaptor
from runtime.memory.spans.failures import OutOfMemory, SpanMisuse
from runtime.memory.spans.points import MEMORY_ALLOC, MEMORY_DEFRAG, MEMORY_FREE, MEMORY_RESET
from runtime.memory.spans.pool import Move, Pool
from runtime.memory.spans.span import AllocRequest, Lifetime, ResetScope, Span


class FaultAlloc(Adaptor):
    """Crosses `memory.alloc` only. It is for scratch: its spans end with their step, so a dropped free would leave no
    trace."""

    def __init__(self, inner: Pool, env: Env) -> None:
        super().__init__(inner)
        self._env = env

    def alloc(self, request: AllocRequest) -> Span:
        """See Pool. A failure with `place = "after"` frees the span again: the caller does not own it."""
        if not self._env.faults.armed:
            return self.inner.alloc(request)
        self._fire_alloc(request, "before")
        span = self.inner.alloc(request)
        try:
            self._fire_alloc(request, "after")
        except OutOfMemory:
            self.inner.free(span, None)
            raise
        return span

    def _fire_alloc(self, request: AllocRequest, place: str) -> None:
        self._env.faults.fire(
            MEMORY_ALLOC,
            place=place,
            size_bytes=request.bytes,
            request=request.session if request.lifetime is Lifetime.SESSION else None,  # a step belongs to many
            group=request.group,
            session=request.session or None,
            pool=self.name,
        )


class Fault(FaultAlloc):
    """Crosses all fault points of a pool."""

    def free(self, span: Span, after: Ticket | None) -> None:
        """See Pool. A dropped free returns as if the span had ended."""
        if not (self._env.faults.armed and self._drops_free(span)):
            self.inner.free(span, after)

    def reset(self, scope: ResetScope, after: Ticket | None) -> int:
        faults = self._env.faults
        if faults.armed:
            # The request is named by the session, which owns the spans that are left over; no request is a victim.
            effect = faults.fire(
                MEMORY_RESET, request=scope.session, group=scope.group, session=scope.session, pool=self.name
            )
            if effect is not None and effect.kind is Kind.DROP:
                return 0
        return self.inner.reset(scope, after)

    def defrag(self, move: Move, barrier: Ticket | None, *, bytes_max: int | None = None, overlap: bool = False) -> int:
        faults = self._env.faults
        if not faults.armed:
            return self.inner.defrag(move, barrier, bytes_max=bytes_max, overlap=overlap)

        def breakable_move(old: Span, new: Span, size_bytes: int) -> Ticket | None:
            faults.fire(MEMORY_DEFRAG, place="in_flight", size_bytes=size_bytes, pool=self.name)
            return move(old, new, size_bytes)

        faults.fire(MEMORY_DEFRAG, pool=self.name)
        return self.inner.defrag(breakable_move, barrier, bytes_max=bytes_max, overlap=overlap)

    def _drops_free(self, span: Span) -> bool:
        try:
            request = self.inner.find(span)
        except SpanMisuse:
            return False  # the pool's `free` raises it
        effect = self._env.faults.fire(
            MEMORY_FREE, request=request.session or None, group=request.group, pool=self.name, phase=None
        )
        return effect is not None and effect.kind is Kind.DROP
