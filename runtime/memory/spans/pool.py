"""What every pool and every adaptor on it can do. Adaptors stack: Stats(Retry(Limit(Fault(pool))))."""

from collections.abc import Callable, Iterator
from typing import Protocol

from runtime.core.ports import Ticket
from runtime.memory.spans.placement import Place
from runtime.memory.spans.span import AllocRequest, ResetScope, Span
from runtime.memory.spans.usage import Usage

Move = Callable[[Span, Span, int], Ticket | None]
"""move(old, new, bytes): copy, tell the owner that its handle is `new` now, and give the ticket of the copy (None: it
is done). When it raises, nothing has moved."""

Returned = Callable[[Place], None]
"""Called when a place goes back, after everything that touches it is done and before it can be handed out again."""


class Pool(Protocol):
    """All calls belong to the engine's thread.

    `after` is the last launch that touches what ends; None only when none was ever launched. It has no default, since
    the one who forgets it would hand out bytes that a running kernel still reads.
    """

    @property
    def name(self) -> str:
        """As in its spans, in the ledger and in audits."""
        ...

    def alloc(self, request: AllocRequest) -> Span:
        """Errors: OutOfMemory (LimitReached, RingFull), and then nothing was taken; LifetimeEscape."""
        ...

    def free(self, span: Span, after: Ticket | None) -> None:
        """End a span; its bytes come back when `after` is done. Errors: DoubleFree, UnknownSpan."""
        ...

    def reset(self, scope: ResetScope, after: Ticket | None) -> int:
        """End all spans that the scope covers, as `free` does; the bytes that were asked for them."""
        ...

    def release_free(self) -> int:
        """Give segments that hold nothing back to the device; their bytes."""
        ...

    def defrag(self, move: Move, barrier: Ticket | None, *, bytes_max: int | None = None, overlap: bool = False) -> int:
        """Move spans so that what is free lies together; the bytes moved, at most `bytes_max`.

        `barrier` is the last launch that may touch any span. An old place comes back when both the barrier and its
        copy are done. `overlap` (for a quiet hour, and copies like memmove) lets a span slide over its own bytes; it is
        left out while the barrier is not done. Errors: what `move` raised; that span has then not moved.
        """
        ...

    def find(self, span: Span) -> AllocRequest:
        """What `span` was asked with; for those who make a view of it. Errors: StaleSpan, UnknownSpan."""
        ...

    def live(self) -> Iterator[tuple[Span, AllocRequest]]:
        """All that has not ended, oldest first."""
        ...

    def usage(self) -> Usage:
        """Bytes now, and counts."""
        ...

    @property
    def taken_bytes(self) -> int:
        """Held or in limbo."""
        ...

    def set_alignment(self, alignment: int) -> None:
        """At least this from now on. Errors: ValueError unless it is a power of two up to ALIGNMENT_MAX."""
        ...

    def on_return(self, call: Returned) -> None:
        """Call back for each place that goes back."""
        ...

    def check(self) -> None:
        """Assert that no two places overlap and that the bytes add up. Slow; for tests and audits."""
        ...
