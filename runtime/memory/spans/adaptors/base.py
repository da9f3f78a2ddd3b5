"""The adaptor that changes nothing; the others change what they are for."""

from collections.abc import Iterator
from typing import TypeVar

from runtime.core.ports import Ticket
from runtime.memory.spans.pool import Move, Pool, Returned
from runtime.memory.spans.span import AllocRequest, ResetScope, Span
from runtime.memory.spans.usage import Usage


class Adaptor:
    """Passes everything on to `inner`; see Pool."""

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

    def set_alignment(self, alignment: int) -> None:
        self.inner.set_alignment(alignment)

    def on_return(self, call: Returned) -> None:
        self.inner.on_return(call)

    def check(self) -> None:
        self.inner.check()


Wanted = TypeVar("Wanted", bound=Adaptor)


def find_adaptor(pool: Pool, wanted: type[Wanted]) -> Wanted | None:
    """The outermost adaptor of this type in the stack that `pool` is the top of."""
    at: Pool = pool
    while isinstance(at, Adaptor):
        if isinstance(at, wanted):
            return at
        at = at.inner
    return None
