"""Limit: a bound below that of the device, so that one pool can't eat the room of another."""

from runtime.memory.spans.adaptors.base import Adaptor
from runtime.memory.spans.failures import LimitReached
from runtime.memory.spans.pool import Pool
from runtime.memory.spans.span import AllocRequest, Span


class Limit(Adaptor):
    """At most `bytes_max` held or in limbo; what waits in limbo still takes room. Errors of alloc: LimitReached."""

    def __init__(self, inner: Pool, bytes_max: int) -> None:
        super().__init__(inner)
        self.set_limit(bytes_max)

    def set_limit(self, bytes_max: int) -> None:
        """From now on; what is over it already stays, and nothing is added until enough has gone."""
        if bytes_max < 0:
            raise ValueError(f"pool {self.name}: limit {bytes_max}; give 0 or more bytes")
        self.bytes_max = bytes_max

    def alloc(self, request: AllocRequest) -> Span:
        """Takes first and undoes: only then is it known what rounding adds."""
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
            left,
        )
