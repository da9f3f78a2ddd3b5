"""Plan time against the clock: the schedule is absolute, and stands still while the load is paused.

    plan      0 ====== 10 ======== 20 =====>
    clock  t0 ====== |paused| ======== =====>     what was due during a pause comes after it, nothing is skipped

So a run with quiesce phases sends the same rows as one without.
"""

from dataclasses import dataclass


@dataclass
class PlanClock:
    """Times in ns of the clock. `start` must come before `due_ns`."""

    start_ns: int | None = None
    shifted_ns: int = 0  # sum of the pauses that are over
    paused_ns: int | None = None  # when the present pause began

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
        """When the plan's moment `t_s` is due, as things stand."""
        assert self.start_ns is not None
        return self.start_ns + self.shifted_ns + round(t_s * 1e9)
