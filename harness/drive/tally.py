"""What the replies say so far, for phase ends, abort rules and the progress line. Reads the history as it grows."""

import sqlite3
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

WINDOW_S = 30.0
"""What "now" means for a live figure: the last so many seconds."""

_NEWS = """
    SELECT reply.rowid, reply.end_ns, reply.outcome, reply.first_ns, reply.end_ns, request.intended_ns,
           reply.output_tokens, request.kind
    FROM reply LEFT JOIN request ON request.id = reply.request WHERE reply.rowid > ? ORDER BY reply.rowid
"""
_SENSORS = "SELECT name, value, max(t_ns) FROM sample JOIN series ON series.id = series WHERE t_ns > ? GROUP BY name"


@dataclass(frozen=True, slots=True)
class Heard:
    """One reply, as far as it matters while the run goes on. Times from the intended send, in seconds."""

    end_ns: int
    outcome: str
    ttft_s: float | None
    e2e_s: float | None
    tokens: int
    outside: bool
    """No fault was open when it was taken."""


@dataclass(slots=True)
class Tally:
    """`refresh` after the recorder has pumped. Only load and probe requests count, not canaries."""

    path: Path
    counts: Counter[str] = field(default_factory=Counter)
    recent: deque[Heard] = field(default_factory=deque)
    """Replies of the last WINDOW_S seconds, oldest first."""
    sensors: dict[str, float] = field(default_factory=dict)
    """Latest sample of each series, by name."""
    _taken: int = 0

    @property
    def ok(self) -> int:
        """Good replies so far."""
        return self.counts["ok"]

    def refresh(self, now_ns: int, fault_open: bool) -> None:
        """Take what was committed since the last time. The reader is opened and closed, so it pins no WAL."""
        connection = sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True)
        try:
            news = connection.execute(_NEWS, (self._taken,)).fetchall()
            latest = connection.execute(_SENSORS, (now_ns - int(5e9),)).fetchall()
        finally:
            connection.close()
        self.sensors.update({name: value for name, value, _ in latest})
        for rowid, end_ns, outcome, first_ns, _, intended_ns, tokens, kind in news:
            self._taken = rowid
            if kind in ("load", "probe", None):
                self.counts[outcome] += 1
                ttft_s, e2e_s = _since(intended_ns, first_ns), _since(intended_ns, end_ns)
                self.recent.append(Heard(end_ns or now_ns, outcome, ttft_s, e2e_s, tokens or 0, not fault_open))
        while self.recent and self.recent[0].end_ns < now_ns - WINDOW_S * 1e9:
            self.recent.popleft()

    def figures(self) -> dict[str, float]:
        """Live values of the metrics that an abort can name, over the last WINDOW_S; what is not known is left out."""
        replies = [heard for heard in self.recent if heard.outcome != "cancelled"]
        outside = [heard for heard in replies if heard.outside]
        ok = [heard for heard in replies if heard.outcome == "ok"]
        found = {
            "errors": _share(replies, lambda one: one.outcome != "ok"),
            "errors.outside": _share(outside, lambda one: one.outcome != "ok"),
            "refused": _share(replies, lambda one: one.outcome == "refused"),
            "dropped": _share(replies, lambda one: one.outcome == "dropped"),
            "throughput.requests": len(ok) / WINDOW_S,
            "throughput.tokens": sum(heard.tokens for heard in self.recent) / WINDOW_S,
            "host.disk_free": self.sensors.get("host.disk_free"),
            "host.hiccup.max": _times(self.sensors.get("host.hiccup_ms"), 1e-3),
            "load.lateness.p99": _times(self.sensors.get("load.lateness_ms_p99"), 1e-3),
        }
        for metric, values in (("ttft", [one.ttft_s for one in ok]), ("e2e", [one.e2e_s for one in ok])):
            found |= {f"{metric}.{stat}": value for stat, value in _stats([one for one in values if one is not None])}
        return {name: value for name, value in found.items() if value is not None}


def _since(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / 1e9


def _share(replies: list[Heard], bad: Callable[[Heard], bool]) -> float | None:
    return sum(map(bad, replies)) / len(replies) if replies else None


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _stats(values: list[float]) -> list[tuple[str, float]]:
    if not values:
        return []
    values.sort()
    quantiles = [
        (f"p{percent}", values[min(len(values) - 1, len(values) * percent // 100)]) for percent in (50, 90, 95, 99)
    ]
    return [*quantiles, ("max", values[-1]), ("mean", sum(values) / len(values))]
