"""Figures of a run while it goes on, for phase ends, abort rules and the progress line. No judge reads them."""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

WINDOW_S = 30.0
"""The length (s) of the window over which a live figure is computed."""


@dataclass(frozen=True, slots=True)
class RecentReply:
    """The figures of one reply that live statistics need. Durations count from the intended send time."""

    end_ns: int
    outcome: str
    ttft_s: float | None
    e2e_s: float | None
    tokens: int
    outside: bool
    """True when no fault was active when the reply was counted."""


@dataclass
class LiveStats(ABC):
    """Counts replies to load and probe requests, not to canaries. Each drive has its own subclass."""

    counts: Counter[str] = field(default_factory=Counter, init=False)
    recent: deque[RecentReply] = field(default_factory=deque, init=False)
    """Replies of the last WINDOW_S seconds, oldest first."""
    sensors: dict[str, float] = field(default_factory=dict, init=False)
    """Latest sample of each series, by name."""
    stalled: str | None = field(default=None, init=False)
    """The server's words on its standstill; None while it has reported none."""

    @property
    def ok(self) -> int:
        """Number of good replies so far."""
        return self.counts["ok"]

    @abstractmethod
    def refresh(self, now_ns: int, fault_open: bool) -> None:
        """Count the replies that are new at `now_ns` of the run's clock. Raises HistoryFull."""

    def count(self, reply: RecentReply) -> None:
        """Count one reply that has ended."""
        self.counts[reply.outcome] += 1
        self.recent.append(reply)

    def forget(self, now_ns: int) -> None:
        """Drop replies that ended more than WINDOW_S before `now_ns`, a time since the start of the run."""
        while self.recent and self.recent[0].end_ns < now_ns - WINDOW_S * 1e9:
            self.recent.popleft()

    def figures(self) -> dict[str, float]:
        """Values of the metrics that an abort rule can name, over the last WINDOW_S. Unknown metrics are left out."""
        replies = [reply for reply in self.recent if reply.outcome != "cancelled"]
        outside = [reply for reply in replies if reply.outside]
        ok = [reply for reply in replies if reply.outcome == "ok"]
        found = {
            "errors": _share(replies, lambda one: one.outcome != "ok"),
            "errors.outside": _share(outside, lambda one: one.outcome != "ok"),
            "refused": _share(replies, lambda one: one.outcome == "refused"),
            "dropped": _share(replies, lambda one: one.outcome == "dropped"),
            "throughput.requests": len(ok) / WINDOW_S,
            "throughput.tokens": sum(reply.tokens for reply in self.recent) / WINDOW_S,
            "host.disk_free": self.sensors.get("host.disk_free"),
        }
        for metric, series in (("host.hiccup.max", "host.hiccup_ms"), ("load.lateness.p99", "load.lateness_ms_p99")):
            if series in self.sensors:
                found[metric] = self.sensors[series] / 1e3
        for metric, values in (("ttft", [one.ttft_s for one in ok]), ("e2e", [one.e2e_s for one in ok])):
            found |= {f"{metric}.{stat}": value for stat, value in _stats([one for one in values if one is not None])}
        return {name: value for name, value in found.items() if value is not None}


def _share(replies: list[RecentReply], bad: Callable[[RecentReply], bool]) -> float | None:
    return sum(map(bad, replies)) / len(replies) if replies else None


def _stats(values: list[float]) -> list[tuple[str, float]]:
    if not values:
        return []
    values.sort()
    quantiles = [
        (f"p{percent}", values[min(len(values) - 1, len(values) * percent // 100)]) for percent in (50, 90, 95, 99)
    ]
    return [*quantiles, ("max", values[-1]), ("mean", sum(values) / len(values))]
