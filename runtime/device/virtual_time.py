"""Virtual time: a clock that jumps to the next planned call, and the heap of planned calls.

    at(t, call) --> heap of (t, seq) --> step(): the clock jumps to t, then call()

Times are integer nanoseconds. Calls planned for one time run in the order in which they were planned, so a run with a
given seed is identical on every machine.
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
        """Return the present time in nanoseconds."""
        return self._now_ns

    def at(self, t_ns: int, call: Call) -> None:
        """Plan `call` for `t_ns`, which must not be in the past."""
        assert t_ns >= self._now_ns, f"{t_ns} ns is in the past: it is {self._now_ns} ns"
        heapq.heappush(self._heap, (t_ns, self._seq, call))
        self._seq += 1

    @property
    def next_ns(self) -> int | None:
        """Time of the next planned call; None when no call is planned."""
        return self._heap[0][0] if self._heap else None

    def clear(self) -> None:
        """Drop all planned calls."""
        self._heap.clear()

    def step(self) -> None:
        """Jump to the time of the next planned call and run it."""
        self._now_ns, _, call = heapq.heappop(self._heap)
        call()

    def jump(self, t_ns: int) -> None:
        """Jump to `t_ns`. No call may be planned before it."""
        assert self._now_ns <= t_ns, f"time goes back from {self._now_ns} to {t_ns} ns"
        assert not self._heap or t_ns <= self._heap[0][0], f"a planned call would be missed on the way to {t_ns} ns"
        self._now_ns = t_ns
