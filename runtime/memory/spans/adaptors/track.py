"""Track: since when, by whom, and who freed it first; a leak is reported with its owner, never as a bare sum."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from runtime.core.env import Env
from runtime.core.ports import Ticket
from runtime.memory.spans.adaptors.base import Adaptor
from runtime.memory.spans.failures import DoubleFree, SpanMisuse, StaleSpan
from runtime.memory.spans.pool import Move, Pool
from runtime.memory.spans.span import AllocRequest, Lifetime, ResetScope, Span
from runtime.memory.spans.usage import Usage

_ENDED_KEPT = 1024


@dataclass(frozen=True, slots=True)
class Leak:
    """A span that is still held though its owner has ended."""

    span: Span
    request: AllocRequest
    since_ns: int
    age_ns: int
    history: str
    """The owner's last events, from the ledger."""

    def __str__(self) -> str:
        return (
            f"{self.request.owner} still holds {self.span.bytes} B of {self.span.pool} (#{self.span.generation}, "
            f"{self.age_ns / 1e9:.3f} s old): {self.history}"
        )


class Track(Adaptor):
    """Writes each operation into its owner's history in the ledger; that is what an audit shows beside a leak."""

    def __init__(self, inner: Pool, env: Env) -> None:
        super().__init__(inner)
        self._env = env
        self._since_ns: dict[Span, int] = {}
        self._ended: dict[Span, str] = {}
        self._leaked: set[Span] = set()

    def alloc(self, request: AllocRequest) -> Span:
        span = self.inner.alloc(request)
        self._since_ns[span] = self._env.clock.now_ns()
        self._note(request, f"alloc #{span.generation} {span.bytes} B")
        return span

    def free(self, span: Span, after: Ticket | None) -> None:
        """Errors: DoubleFree that says how it ended the first time."""
        try:
            request = self.inner.find(span)
        except StaleSpan as error:
            first = self._ended.get(span, "too long ago to say by whom")
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
        """A moved span keeps its age."""

        def tracked(old: Span, new: Span, size_bytes: int) -> Ticket | None:
            copied = move(old, new, size_bytes)
            self._since_ns[new] = self._since_ns.get(old, self._env.clock.now_ns())
            self._end(old, self.inner.find(new), f"moved to #{new.generation}")
            return copied

        return self.inner.defrag(tracked, barrier, bytes_max=bytes_max, overlap=overlap)

    def leaks(self, alive: Collection[str]) -> tuple[Leak, ...]:
        """Spans whose owner is not `alive` any more, oldest first. What is global has no end and can't leak."""
        now_ns = self._env.clock.now_ns()
        found = []
        for span, request in self.inner.live():
            if request.lifetime is not Lifetime.GLOBAL and request.owner not in alive:
                since_ns = self._since_ns.get(span, now_ns)
                history = self._env.ledger.history(request.owner)
                found.append(Leak(span, request, since_ns, now_ns - since_ns, history))
                self._leaked.add(span)
        return tuple(found)

    def usage(self) -> Usage:
        return replace(self.inner.usage(), leaks=len(self._leaked))

    def _end_unless_lost(self, span: Span, request: AllocRequest, how: str) -> None:
        """A history that says "freed" beside a leak would send its reader the wrong way."""
        try:
            self.inner.find(span)
        except SpanMisuse:
            self._end(span, request, how)

    def _end(self, span: Span, request: AllocRequest, how: str) -> None:
        self._since_ns.pop(span, None)
        text = f"{how} #{span.generation} {span.bytes} B"
        self._note(request, text)
        self._ended[span] = f"{text} of {request.owner} at {self._env.clock.now_ns() / 1e9:.3f} s"
        if len(self._ended) > _ENDED_KEPT:
            del self._ended[next(iter(self._ended))]

    def _note(self, request: AllocRequest, text: str) -> None:
        self._env.ledger.note(request.owner, self._env.clock.now_ns(), f"{self.name} {text}")
