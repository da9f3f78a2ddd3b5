"""Live figures of a trial in real time, read from the history while the recorder writes it."""

import sqlite3
from dataclasses import dataclass

from harness.record.recorder import Recorder
from harness.trial.live_stats import LiveStats, RecentReply

REFRESH_EVERY_NS = 500_000_000
SENSOR_AGE_NS = 5_000_000_000
"""Older samples are ignored."""

_NEWS = """
    SELECT reply.rowid, reply.end_ns, reply.outcome, reply.first_ns, request.intended_ns, reply.output_tokens,
           request.kind
    FROM reply LEFT JOIN request ON request.id = reply.request WHERE reply.rowid > ? ORDER BY reply.rowid
"""
_SENSORS = "SELECT name, value, max(t_ns) FROM sample JOIN series ON series.id = series WHERE t_ns > ? GROUP BY name"


@dataclass
class RecordedStats(LiveStats):
    """Commits the recorder and counts the replies committed since the last refresh, twice a second."""

    recorder: Recorder
    _taken: int = 0
    """The last row id of table reply that was counted."""
    _due_ns: int = 0

    def refresh(self, now_ns: int, fault_open: bool) -> None:
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + REFRESH_EVERY_NS
        self.recorder.pump()
        run_ns = now_ns - self.recorder.start_ns
        # The connection is opened for each refresh: an open reader would keep the WAL from being truncated.
        connection = sqlite3.connect(f"{self.recorder.path.as_uri()}?mode=ro", uri=True)
        try:
            news = connection.execute(_NEWS, (self._taken,)).fetchall()
            stalled = connection.execute("SELECT detail FROM event WHERE kind = 'stalled' LIMIT 1").fetchone()
            latest = connection.execute(_SENSORS, (run_ns - SENSOR_AGE_NS,)).fetchall()
        finally:
            connection.close()
        self.stalled = None if stalled is None else stalled[0]
        self.sensors.update({name: value for name, value, _ in latest})
        for rowid, end_ns, outcome, first_ns, intended_ns, tokens, kind in news:
            self._taken = rowid
            if kind in ("load", "probe", None):
                ttft_s, e2e_s = _since(intended_ns, first_ns), _since(intended_ns, end_ns)
                self.count(RecentReply(end_ns or run_ns, outcome, ttft_s, e2e_s, tokens or 0, not fault_open))
        self.forget(run_ns)


def _since(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / 1e9
