"""The adaptor that changes nothing. The others override the calls that they change."""

from collections.abc import Iterator

from runtime.core.ports import Ticket
from runtime.memory.spans.pool import Move, Pool
from runtime.memory.spans.span import AllocRequest, ResetScope, Span
from runtime.memory.spans.usage import Usage


class Adaptor:
    """Passes each call on to `inner`. Implements Pool."""

    def __init__(self, inner: Pool) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    def alloc(self, request: AllocRequest) -> Span:
        return self.inner.alloc(request)

    def free(self, span: Span, after: Ticket | None) -> None:
        self.inner.free(span, after)

    def reset(self, scope: ResetScope, after: Ticket | None) -> int:
        return self.inner.reset(scope, after)

    def release_free(self) -> int:
        return self.inner.release_free()

    def defrag(self, move: Move, barrier: Ticket | None, *, bytes_max: int | None = None, overlap: bool = False) -> int:
        return self.inner.defrag(move, barrier, bytes_max=bytes_max, overlap=overlap)

    def find(self, span: Span) -> AllocRequest:
        return self.inner.find(span)

    def live(self) -> Iterator[tuple[Span, AllocRequest]]:
        return self.inner.live()

    def usage(self) -> Usage:
        return self.inner.usage()

    @property
    def taken_bytes(self) -> int:
        return self.inner.taken_bytes
