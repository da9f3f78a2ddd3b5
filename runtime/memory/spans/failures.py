"""Typed errors of the pools: the severity of each for the process, and the HTTP status and code for its client.

RuntimeFailure
|- OutOfMemory        recoverable       429 out_of_memory     the pool has no place; says how much is free
|  |- LimitReached    recoverable       429 memory_limit      the pool has room, but has reached its limit
|  `- RingFull        recoverable       429 workspace_full    the ring's oldest span is still in use
|- LifetimeEscape     recoverable       500 lifetime_escape   the span would outlive the spans of its pool
|- DefragFailed       recoverable       500 defrag_failed     a move was not made; its span stays where it was
`- SpanMisuse         after clean-up    500 span_misuse       a handle is wrong, which is a bug of the runtime
   |- UnknownSpan                                             the pool never handed it out
   `- StaleSpan                                               it was freed, reset or moved before
      `- DoubleFree                                           it is freed a second time
"""

from faults.points import Severity
from runtime.core.errors import RuntimeFailure


class OutOfMemory(RuntimeFailure):
    """The pool has no place for a request of `asked` bytes. Nothing was taken; `free` bytes were free."""

    http = 429
    code = "out_of_memory"

    def __init__(self, message: str = "", asked: int = 0, free: int = 0) -> None:
        super().__init__(message)
        self.asked, self.free = asked, free

    @property
    def fragmented(self) -> bool:
        """True when enough bytes were free, but not in one piece."""
        return 0 < self.asked <= self.free


class LimitReached(OutOfMemory):
    """The request would take the pool above its limit."""

    code = "memory_limit"

    @property
    def fragmented(self) -> bool:
        """Always False: a limit counts bytes, not pieces."""
        return False


class RingFull(OutOfMemory):
    """The ring has come round to a span that is in use."""

    code = "workspace_full"


class LifetimeEscape(RuntimeFailure):
    """The lifetime of the span is longer than the longest one of its pool."""

    code = "lifetime_escape"


class DefragFailed(RuntimeFailure):
    """A move could not be made. Spans that were moved before it stay moved."""

    code = "defrag_failed"


class SpanMisuse(RuntimeFailure):
    """The handle stands for no live span of this pool."""

    severity = Severity.AFTER_CLEANUP
    code = "span_misuse"


class UnknownSpan(SpanMisuse):
    """The pool never handed out this handle."""


class StaleSpan(SpanMisuse):
    """The span was freed, reset or moved before; its bytes may belong to another span."""


class DoubleFree(StaleSpan):
    """The span was freed, reset or moved before, and is freed again."""
