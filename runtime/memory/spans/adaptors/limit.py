"""Limit: a bound below that of the device, so that one pool can't use the memory of another."""

from runtime.memory.spans.adaptors.base import Adaptor
from runtime.memory.spans.failures import LimitReached
from runtime.memory.spans.pool import Pool
from runtime.memory.spans.span import AllocRequest, Span


class Limit(Adaptor):
    """At most `bytes_max` bytes are live or in limbo; `alloc` raises LimitReached beyond it. After the limit was
    lowered, spans above it stay, and no span is added until enough have ended."""

    def __init__(self, inner: Pool, bytes_max: int) -> None:
        super().__init__(inner)
        self.bytes_max = bytes_max

    def alloc(self, request: AllocRequest) -> Span:
        """See Pool. It undoes an allocation above the limit: only then is the size with rounding known."""
        if self.taken_bytes + request.bytes > self.bytes_max:
            raise self._refusal(request)
        span = self.inner.alloc(request)
        if self.taken_bytes > self.bytes_max:
            self.inner.free(span, None)
            raise self._refusal(request)
        return span

    def _refusal(self, request: AllocRequest) -> LimitReached:
        left = max(0, self.bytes_max - self.taken_bytes)
        return LimitReached(
            f"pool {self.name}: asked {request}; {left} B are left below its limit of {self.bytes_max} B",
            request.bytes,
            left,
        )
