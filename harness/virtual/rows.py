"""Rows of a virtual run on their way to the history: tuples in the column order of their tables, written in batches."""

from collections.abc import Mapping, Sequence

from faults import FaultState, Fire
from harness.load.itl import GapHistogram
from harness.record.recorder import Recorder
from runtime.core.env import Event
from runtime.guard.audit import AuditRow

BATCH_ROWS = 4000
SECOND = 1_000_000_000

Values = tuple[int | float | str | None, ...]


class Rows:
    """The rows of one run. Virtual time begins at 0, so every time stamp already counts from the start of the run."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._pending: dict[str, list[Values]] = {}
        self._count = 0
        self._series: dict[str, int] = {}
        self.gaps = GapHistogram(0)
        """Gaps between tokens, by load."""
        self.latest: dict[str, float] = {}
        """Last sample of each series, by name."""

    def put(self, table: str, values: Values) -> None:
        """Add a row, in column order."""
        self._pending.setdefault(table, []).append(values)
        self._count += 1

    def flush(self, *, everything: bool = False) -> None:
        """Give a full batch (or `everything`) to the recorder, which may commit it. Raises HistoryFull."""
        if self._count < BATCH_ROWS and not everything:
            return
        for table, rows in self._pending.items():
            self._recorder.put_many(table, rows)
        self._pending, self._count = {}, 0
        self._recorder.pump()

    def fire(self, fire: Fire) -> None:
        """Record a fire. It is not batched, because evidence must be recorded before the damage is done."""
        self._recorder.put("fire", **fire.to_json())

    def fault(self, state: FaultState) -> None:
        """Record a new state of a fault."""
        self._recorder.put("fault", **state.to_json())

    def counters(self, t_ns: int, counts: Mapping[str, int]) -> None:
        """Add the counts since the last call to table mark."""
        for name, n in counts.items():
            self.put("mark", (name, t_ns, n))

    def events(self, events: Sequence[Event]) -> None:
        """Add events of the engine."""
        for event in events:
            self.put("event", (event.t_ns, "server", event.kind, *event.columns))

    def audit(self, rows: Sequence[AuditRow]) -> None:
        """Add the rows of one audit."""
        for row in rows:
            values = (row.t_ns, row.scope, row.name, row.kind, row.owner, row.value, row.expected, row.unit)
            self.put("audit", (*values, row.history))

    def sample(self, t_ns: int, figures: Mapping[str, tuple[float, str, str]]) -> None:
        """Add one sample of each series: name -> (value, unit, kind)."""
        for name, (value, unit, kind) in figures.items():
            identity = self._series.get(name)
            if identity is None:
                identity = self._series[name] = self._recorder.series(name, unit, kind, "virtual", SECOND)
            self.put("sample", (identity, t_ns, float(value)))
            self.latest[name] = value

    def write_gaps(self, now_ns: int, *, cut: bool = False) -> None:
        """Add the histogram of gaps of a window that is over. With `cut` the window ends now."""
        for values in self.gaps.rotate_rows(now_ns, cut):
            self.put("hist", values)
