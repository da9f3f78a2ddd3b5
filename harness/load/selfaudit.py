"""Counters of the load generator about itself, recorded once a second. Judge load reads them.

Lateness is the time from a request's intended sending to its real sending. A generator that lacks CPU time measures too
high latencies, so its lateness voids timing judges.
"""

import time
from collections.abc import Callable

import psutil


class SelfAudit:
    """Counters of the process. `line` returns the spool line of the last second and starts the next second."""

    def __init__(
        self,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        cpu_ns: Callable[[], int] = time.process_time_ns,
    ) -> None:
        self.in_flight = 0
        self.sent = 0
        self.done = 0
        self.dropped = 0
        self._clock_ns = clock_ns
        self._cpu_ns = cpu_ns
        self._process = psutil.Process()
        self._late_ns: list[int] = []
        self._at_ns, self._at_cpu_ns = clock_ns(), cpu_ns()

    def late(self, lateness_ns: int) -> None:
        self._late_ns.append(max(0, lateness_ns))

    def line(self) -> dict[str, object]:
        """The `self` line: lateness of this second's requests (NULL without any), and cores used since the last
        line."""
        now_ns, cpu_ns = self._clock_ns(), self._cpu_ns()
        late_ns, self._late_ns = sorted(self._late_ns), []
        elapsed_ns = max(1, now_ns - self._at_ns)
        cpu = (cpu_ns - self._at_cpu_ns) / elapsed_ns
        self._at_ns, self._at_cpu_ns = now_ns, cpu_ns
        return {
            "e": "self",
            "t_ns": now_ns,
            "lateness_ms_p99": late_ns[-(-99 * len(late_ns) // 100) - 1] / 1e6 if late_ns else None,
            "lateness_ms_max": late_ns[-1] / 1e6 if late_ns else None,
            "in_flight": self.in_flight,
            "dropped": self.dropped,
            "sent": self.sent,
            "done": self.done,
            "cpu": round(cpu, 4),
            "rss_bytes": self._process.memory_info().rss,
        }
