"""Log: each operation as one line, the failing one too: that is the one people look for."""

from collections.abc import Callable
from typing import TypeVar

from runtime.core.ports import Clock, Ticket
from runtime.memory.spans.adaptors.base import Adaptor
from runtime.memory.spans.pool import Move, Pool
from runtime.memory.spans.span import AllocRequest, ResetScope, Span

Result = TypeVar("Result")


class Log(Adaptor):
    """Lines begin with the time in ns and the pool; `tell` writes them somewhere and returns at once."""

    def __init__(self, inner: Pool, clock: Clock, tell: Callable[[str], None]) -> None:
        super().__init__(inner)
        self._clock, self._tell = clock, tell

    def alloc(self, request: AllocRequest) -> Span:
        return self._told(f"alloc {request}", lambda: self.inner.alloc(request))

    def free(self, span: Span, after: Ticket | None) -> None:
        self._told(f"free {_words(span)}{_after(after)}", lambda: self.inner.free(span, after))

    def reset(self, scope: ResetScope, after: Ticket | None) -> int:
        return self._told(f"reset {scope}{_after(after)}", lambda: self.inner.reset(scope, after))

    def release_free(self) -> int:
        return self._told("release_free", self.inner.release_free)

    def defrag(self, move: Move, barrier: Ticket | None, *, bytes_max: int | None = None, overlap: bool = False) -> int:
        def told_move(old: Span, new: Span, size_bytes: int) -> Ticket | None:
            return self._told(f"move {_words(old)} to {_words(new)}", lambda: move(old, new, size_bytes))

        return self._told(
            f"defrag{_after(barrier)}",
            lambda: self.inner.defrag(told_move, barrier, bytes_max=bytes_max, overlap=overlap),
        )

    def _told(self, what: str, do: Callable[[], Result]) -> Result:
        now_ns = self._clock.now_ns()
        try:
            result = do()
        except Exception as error:
            self._tell(f"{now_ns} {self.name} {what}: FAILED {type(error).__name__}: {error}")
            raise
        shown = _words(result) if isinstance(result, Span) else result
        self._tell(f"{now_ns} {self.name} {what}" + ("" if shown is None else f": {shown}"))
        return result


def _words(span: Span) -> str:
    return f"#{span.generation} {span.segment}+{span.offset} {span.bytes} B"


def _after(ticket: Ticket | None) -> str:
    return "" if ticket is None else f" after ticket {ticket.seq}"
