"""Rows of a virtual run on their way to the history: tuples in the tables' own column order, handed over in batches."""

from collections.abc import Mapping, Sequence

from faults import FaultState, Fire
from harness.load.itl import GapHistogram
from harness.record.recorder import Recorder
from runtime.core.env import Event
from runtime.guard.audit import AuditRow

_BATCH = 4000
SECOND = 1_000_000_000

Values = tuple[int | float | str | None, ...]


class Rows:
    """One run's. Virtual time begins at 0, so every stamp is run time already."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._held: dict[str, list[Values]] = {}
        self._count = 0
        self._series: dict[str, int] = {}
        self.gaps = GapHistogram(0)
        """Gaps between tokens, by load."""
        self.latest: dict[str, float] = {}
        """Last sample of each series, by name."""

    def put(self, table: str, values: Values) -> None:
        """A row in column order."""
        self._held.setdefault(table, []).append(values)
        self._count += 1

    def flush(self, *, everything: bool = False) -> None:
        """Hand over what has gathered, and let the recorder commit it, when it is worth it. Raises HistoryFull."""
        if self._count < _BATCH and not everything:
            return
        for table, rows in self._held.items():
            self._recorder.put_many(table, rows)
        self._held, self._count = {}, 0
        self._recorder.pump()

    def fire(self, fire: Fire) -> None:
        """The injector swears to a fire."""
        self._recorder.put("fire", **fire.to_json())

    def fault(self, state: FaultState) -> None:
        """The injector tells a fault's new state."""
        row = state.to_json()
        row.pop("error")
        self._recorder.put("fault", **row)

    def marks(self, t_ns: int, fresh: Mapping[str, int]) -> None:
        """Counts since the last call."""
        for name, n in fresh.items():
            self.put("mark", (name, t_ns, n))

    def events(self, events: Sequence[Event]) -> None:
        """Write the engine's events."""
        for event in events:
            self.put("event", (event.t_ns, "server", event.kind, *event.columns))

    def audit(self, rows: Sequence[AuditRow]) -> None:
        """Every row of one audit."""
        for row in rows:
            values = (row.t_ns, row.scope, row.name, row.kind, row.owner, row.value, row.expected, row.unit)
            self.put("audit", (*values, row.history))

    def sample(self, t_ns: int, figures: Mapping[str, tuple[float, str, str]]) -> None:
        """One sample of each series: name -> (value, unit, kind)."""
        for name, (value, unit, kind) in figures.items():
            identity = self._series.get(name)
            if identity is None:
                identity = self._series[name] = self._recorder.series(name, unit, kind, "virtual", SECOND)
            self.put("sample", (identity, t_ns, float(value)))
            self.latest[name] = value

    def turn_gaps(self, now_ns: int, *, cut: bool = False) -> None:
        """Write the histogram of a window of gaps that is over, or ends now."""
        if found := self.gaps.rotate_rows(now_ns, cut):
            self._held.setdefault("hist", []).extend(found)
            self._count += len(found)
