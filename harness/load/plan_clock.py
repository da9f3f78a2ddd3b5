"""Converts plan time to clock time. The schedule is absolute and does not advance while the load is paused.

    plan      0 ====== 10 ======== 20 =====>
    clock  t0 ====== |paused| ======== =====>     arrivals due during a pause come after it; none is skipped

A run with quiesce phases therefore sends the same rows as a run without them.
"""

from dataclasses import dataclass


@dataclass
class PlanClock:
    """The clock of the plan. Times are ns of the monotonic clock; `start` must come before `due_ns`."""

    start_ns: int | None = None
    shifted_ns: int = 0  # total length of the pauses that are over
    paused_ns: int | None = None  # start of the current pause

    def start(self, t0_ns: int) -> None:
        assert self.start_ns is None, "a timeline starts once"
        self.start_ns = t0_ns

    def pause(self, now_ns: int) -> None:
        if self.paused_ns is None:
            self.paused_ns = now_ns

    def resume(self, now_ns: int) -> None:
        if self.paused_ns is not None:
            # A pause that was over before the start shifts nothing.
            began_ns = self.paused_ns if self.start_ns is None else max(self.paused_ns, min(self.start_ns, now_ns))
            self.shifted_ns += 0 if self.start_ns is None else now_ns - began_ns
            self.paused_ns = None

    @property
    def running(self) -> bool:
        return self.start_ns is not None and self.paused_ns is None

    def due_ns(self, t_s: float) -> int:
        """The clock time (ns) at which plan time `t_s` (s) is due, without later pauses."""
        assert self.start_ns is not None
        return self.start_ns + self.shifted_ns + round(t_s * 1e9)
