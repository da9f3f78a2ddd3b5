"""Virtual time: a clock that jumps to the next thing that happens, and the heap of those things.

    at(t, call) --> heap of (t, seq) --> step(): the clock jumps to t, then call()

Integer nanoseconds. Two things at one moment happen in the order in which they were planned, so a run of one seed is
the same run everywhere.
"""

import heapq
from collections.abc import Callable

Call = Callable[[], object]


class VirtualTime:
    """Implements `runtime.core.ports.Clock`. Nothing here sleeps."""

    def __init__(self) -> None:
        self._now_ns = 0
        self._heap: list[tuple[int, int, Call]] = []
        self._seq = 0

    def now_ns(self) -> int:
        """The present."""
        return self._now_ns

    def at(self, t_ns: int, call: Call) -> None:
        """Plan `call` for `t_ns`, which must not lie in the past."""
        assert t_ns >= self._now_ns, f"{t_ns} ns is over: it is {self._now_ns} ns"
        heapq.heappush(self._heap, (t_ns, self._seq, call))
        self._seq += 1

    @property
    def next_ns(self) -> int | None:
        """When the next planned thing happens; None when nothing is planned."""
        return self._heap[0][0] if self._heap else None

    def step(self) -> None:
        """Jump to the next planned thing and do it."""
        self._now_ns, _, call = heapq.heappop(self._heap)
        call()

    def jump(self, t_ns: int) -> None:
        """Let time pass until `t_ns`, with nothing planned in between."""
        assert self._now_ns <= t_ns, f"time goes back from {self._now_ns} to {t_ns} ns"
        assert not self._heap or t_ns <= self._heap[0][0], f"something planned would be missed on the way to {t_ns} ns"
        self._now_ns = t_ns
