"""Track: the history of each owner, and how a span ended that is freed twice."""

from runtime.core.env import Env
from runtime.core.ports import Ticket
from runtime.memory.spans.adaptors.base import Adaptor
from runtime.memory.spans.failures import DoubleFree, SpanMisuse, StaleSpan
from runtime.memory.spans.pool import Move, Pool
from runtime.memory.spans.span import AllocRequest, ResetScope, Span

_ENDED_KEPT = 1024


class Track(Adaptor):
    """Writes each operation into its owner's history in the ledger, which an audit shows beside a leak."""

    def __init__(self, inner: Pool, env: Env) -> None:
        super().__init__(inner)
        self._env = env
        self._ended: dict[Span, str] = {}

    def alloc(self, request: AllocRequest) -> Span:
        span = self.inner.alloc(request)
        self._note(request, f"alloc #{span.generation} {span.bytes} B")
        return span

    def free(self, span: Span, after: Ticket | None) -> None:
        """See Pool. The message of DoubleFree says how the span ended the first time."""
        try:
            request = self.inner.find(span)
        except StaleSpan as error:
            first = self._ended.get(span, "too long ago to say how it ended")
            raise DoubleFree(f"{error}; the first time: {first}") from error
        self.inner.free(span, after)
        self._end_unless_lost(span, request, "freed")

    def reset(self, scope: ResetScope, after: Ticket | None) -> int:
        ended = [(span, request) for span, request in self.inner.live() if scope.covers(request)]
        freed_bytes = self.inner.reset(scope, after)
        for span, request in ended:
            self._end_unless_lost(span, request, f"reset {scope.lifetime.name.lower()}")
        return freed_bytes

    def defrag(self, move: Move, barrier: Ticket | None, *, bytes_max: int | None = None, overlap: bool = False) -> int:
        def tracked(old: Span, new: Span, size_bytes: int) -> Ticket | None:
            copied = move(old, new, size_bytes)
            self._end(old, self.inner.find(new), f"moved to #{new.generation}")
            return copied

        return self.inner.defrag(tracked, barrier, bytes_max=bytes_max, overlap=overlap)

    def _end_unless_lost(self, span: Span, request: AllocRequest, how: str) -> None:
        """Note the end of `span`, unless a fault dropped it: "freed" beside a leak would mislead the reader."""
        try:
            self.inner.find(span)
        except SpanMisuse:
            self._end(span, request, how)

    def _end(self, span: Span, request: AllocRequest, how: str) -> None:
        text = f"{how} #{span.generation} {span.bytes} B"
        self._note(request, text)
        self._ended[span] = f"{text} of {request.owner} at {self._env.clock.now_ns() / 1e9:.3f} s"
        if len(self._ended) > _ENDED_KEPT:
            del self._ended[next(iter(self._ended))]

    def _note(self, request: AllocRequest, text: str) -> None:
        self._env.ledger.note(request.owner, self._env.clock.now_ns(), f"{self.name} {text}")
