"""Fault: where a pool meets the faults that are armed; see points.py for what they break."""

from faults.points import Kind
from runtime.core.env import Env
from runtime.core.ports import Ticket
from runtime.memory.spans.adaptors.base import Adaptor
from runtime.memory.spans.failures import OutOfMemory, SpanMisuse
from runtime.memory.spans.points import MEMORY_ALLOC, MEMORY_DEFRAG, MEMORY_FREE, MEMORY_RESET
from runtime.memory.spans.pool import Move, Pool
from runtime.memory.spans.span import AllocRequest, Lifetime, ResetScope, Span


class FaultAlloc(Adaptor):
    """Crosses `memory.alloc` only: for scratch, all of which ends with its step, so that a lost release would leave no
    trace. Off: an attribute read and a branch more."""

    def __init__(self, inner: Pool, env: Env) -> None:
        super().__init__(inner)
        self._env = env

    def alloc(self, request: AllocRequest) -> Span:
        """A failure placed after has taken the span and gives it back: the caller must not own what it was refused."""
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
            request=request.session if request.lifetime is Lifetime.SESSION else None,  # a step's are of all in it
            group=request.group,
            session=request.session or None,
            pool=self.name,
        )


class Fault(FaultAlloc):
    """Crosses all that a pool can do."""

    def free(self, span: Span, after: Ticket | None) -> None:
        """Dropped: the owner believes that it is rid of it."""
        if not (self._env.faults.armed and self._lost(span)):
            self.inner.free(span, after)

    def reset(self, scope: ResetScope, after: Ticket | None) -> int:
        faults = self._env.faults
        if faults.armed:
            # Named by its session: what it leaves behind is held under that name, and no request is a victim of it.
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

    def _lost(self, span: Span) -> bool:
        try:
            request = self.inner.find(span)
        except SpanMisuse:
            return False  # for `free` to refuse
        effect = self._env.faults.fire(
            MEMORY_FREE, request=request.session or None, group=request.group, pool=self.name, phase=None
        )
        return effect is not None and effect.kind is Kind.DROP
