"""Typed errors of the pools.

RuntimeFailure
|- OutOfMemory        recoverable       429 out_of_memory     says what was free, so a fragmented pool is known as such
|  |- LimitReached    recoverable       429 memory_limit      the pool has room, its limit has not
|  `- RingFull        recoverable       429 workspace_full    the ring's oldest span still stands in the way
|- LifetimeEscape     recoverable       500 lifetime_escape   a span would outlive the pool that it was asked of
|- DefragFailed       recoverable       500 defrag_failed     a move was not made; every span is where its owner thinks
`- SpanMisuse         after clean-up    500 span_misuse       a bug of ours
   |- UnknownSpan     never handed out by this pool
   `- StaleSpan       freed, reset or moved since
      `- DoubleFree   and freed again
"""

from faults.points import Severity
from runtime.core.errors import RuntimeFailure


class OutOfMemory(RuntimeFailure):
    """A pool could not serve a request; nothing was taken."""

    http = 429
    code = "out_of_memory"

    def __init__(self, message: str = "", asked: int = 0, free: int = 0, largest_free: int = 0) -> None:
        super().__init__(message)
        self.asked, self.free, self.largest_free = asked, free, largest_free
        """Bytes, when it failed."""

    @property
    def fragmented(self) -> bool:
        """Enough was free, only not in one piece."""
        return 0 < self.asked <= self.free


class LimitReached(OutOfMemory):
    """The pool's own limit said no."""

    code = "memory_limit"

    @property
    def fragmented(self) -> bool:
        """Never: a limit does not look at pieces."""
        return False


class RingFull(OutOfMemory):
    """The ring has come round to a span that is still in use."""

    code = "workspace_full"


class LifetimeEscape(RuntimeFailure):
    """The pool is reset more often than this span may end."""

    code = "lifetime_escape"


class DefragFailed(RuntimeFailure):
    """The copy of a move failed; what was moved before it stays moved."""

    code = "defrag_failed"


class SpanMisuse(RuntimeFailure):
    """A handle was used that this pool does not back."""

    severity = Severity.AFTER_CLEANUP
    code = "span_misuse"


class UnknownSpan(SpanMisuse):
    """Never handed out by this pool, or altered since."""


class StaleSpan(SpanMisuse):
    """Its place may belong to another by now."""


class DoubleFree(StaleSpan):
    """It was freed, reset or moved before."""
