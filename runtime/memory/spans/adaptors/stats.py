"""Stats: the figures of a pool over time, and the advice on its fragmentation."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from runtime.core.ports import Clock
from runtime.memory.spans.adaptors.base import Adaptor
from runtime.memory.spans.failures import OutOfMemory
from runtime.memory.spans.fragmentation_policy import Advice, FragmentationPolicy, Sampler
from runtime.memory.spans.pool import Pool
from runtime.memory.spans.span import AllocRequest, Span
from runtime.memory.spans.usage import LATENCIES_KEPT, Usage, p99


class Stats(Adaptor):
    """Fills failed, fragmentation_failures, peak_bytes, age_ns and latency_ns_p99 of Usage. `timer` returns wall time
    in ns; without it no latency is measured."""

    def __init__(self, inner: Pool, clock: Clock, timer: Callable[[], int] | None = None) -> None:
        super().__init__(inner)
        self._clock, self._timer = clock, timer
        self._start_ns = clock.now_ns()
        self._failed = self._fragmentation_failures = 0
        self._peak_bytes = inner.taken_bytes
        self._latencies_ns: deque[int] = deque(maxlen=LATENCIES_KEPT)
        self._policy, self._sampler = FragmentationPolicy(), Sampler()

    def alloc(self, request: AllocRequest) -> Span:
        timer = self._timer
        start_ns = timer() if timer is not None else 0
        try:
            span = self.inner.alloc(request)
        except OutOfMemory as error:
            self._failed += 1
            self._fragmentation_failures += error.fragmented
            raise
        finally:
            if timer is not None:
                self._latencies_ns.append(timer() - start_ns)
            if self._sampler.due():
                self.advise()
        if self.inner.taken_bytes > self._peak_bytes:
            self._peak_bytes = self.inner.taken_bytes
        return span

    def advise(self) -> Advice:
        """Measure the fragmentation now and return the advice on it."""
        before = self._policy.advice
        advice = self._policy.advise(self.inner.usage().fragmentation or 0.0)
        self._sampler.sampled(changed=advice is not before)
        return advice

    def usage(self) -> Usage:
        return replace(
            self.inner.usage(),
            failed=self._failed,
            fragmentation_failures=self._fragmentation_failures,
            peak_bytes=self._peak_bytes,
            latency_ns_p99=p99(self._latencies_ns) if self._latencies_ns else None,
            age_ns=self._clock.now_ns() - self._start_ns,
        )
