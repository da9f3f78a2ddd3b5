"""The interface of pools of spans, which each adaptor on a pool has too: Stats(Retry(Limit(Fault(pool))))."""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from runtime.core.ports import Ticket
from runtime.memory.spans.span import AllocRequest, PoolKind, ResetScope, Span
from runtime.memory.spans.usage import Usage

Move = Callable[[Span, Span, int], Ticket | None]
"""move(old, new, size_bytes) copies the bytes and tells the owner its new handle. It returns the ticket of the copy, or
None when the copy is done. When it raises, nothing has moved."""


class Pool(Protocol):
    """All calls of one pool come from one thread.

    `after` is the last launch that reads or writes the bytes that end; None only when there was none. It has no
    default: without it, a pool would hand out bytes that a running kernel still reads.
    """

    @property
    def name(self) -> str:
        """Name of the pool in its spans, in the ledger and in audits."""
        ...

    def alloc(self, request: AllocRequest) -> Span:
        """Take a span. Raises OutOfMemory (LimitReached, RingFull), and then nothing was taken, or LifetimeEscape."""
        ...

    def free(self, span: Span, after: Ticket | None) -> None:
        """End a span. Its bytes are available once `after` is done. Raises DoubleFree or UnknownSpan."""
        ...

    def reset(self, scope: ResetScope, after: Ticket | None) -> int:
        """End all spans in `scope` as `free` does. Return the bytes that were asked for them."""
        ...

    def release_free(self) -> int:
        """Give segments without spans back to the device. Return their bytes."""
        ...

    def defrag(self, move: Move, barrier: Ticket | None, *, bytes_max: int | None = None, overlap: bool = False) -> int:
        """Move spans so that free bytes come together. Return the bytes moved, at most `bytes_max`.

        `barrier` is the last launch that may touch any span. An old place is available once the barrier and its copy
        are done. With `overlap` a span may move onto its own bytes, which needs a copy like memmove; no such move is
        made while the barrier is not done. An error of `move` is passed on, and its span has then not moved.
        """
        ...

    def find(self, span: Span) -> AllocRequest:
        """Return the request of a live span. Raises StaleSpan or UnknownSpan."""
        ...

    def live(self) -> Iterator[tuple[Span, AllocRequest]]:
        """Yield all live spans, oldest first."""
        ...

    def usage(self) -> Usage:
        """Return the bytes now, and counts since the start."""
        ...

    @property
    def taken_bytes(self) -> int:
        """Bytes of spans that are live or in limbo."""
        ...


Pools = Mapping[PoolKind, Pool]
"""The pools of one thread: each kind has its own policy and limit, so that short-lived spans leave no holes between
long-lived ones. KV and the prefix cache are blocks of a PagedPool (runtime/memory/kv), and no spans."""
