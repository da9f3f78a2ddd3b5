"""The only writer of run.sqlite. It tails both spools, takes rows of the harness, and commits in batches.

    load process   -> requests.jsonl \\
                                       pump() -> one transaction: rows, and the offset in each file
    server process -> outcomes.jsonl /
    sampler, drive -> typed methods  /

Rows and file offsets are in one transaction, so a recorder that died can be run again over the directory: it continues
where the history ends, and no line is taken twice or lost. Times given to this class are raw CLOCK_MONOTONIC ns; the
run's start is subtracted when they are stored.
"""

import itertools
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.record.canary import Reference, answer_of, compare
from harness.record.rows import ROW_KINDS, SELF_SERIES, Row, row_of
from harness.record.store import open_history, write_rows
from harness.record.tail import FileShrank, read_tail

SPOOLS = {"requests.jsonl": "load", "outcomes.jsonl": "server"}  # file -> process that writes it
ROWS_HELD_MAX = 1_000_000  # rows that the typed methods may hold between two pumps


_Batch = tuple[str, list[tuple[Any, ...]]]
"""Rows of one table, in its column order."""


class HistoryFull(Exception):
    """The history can't be written, for example because the disk is full. Committed rows stay readable."""

    def __init__(self, path: Path, cause: Exception, rows_lost: int) -> None:
        super().__init__(
            f"cannot write {path}: {cause}; {rows_lost} rows of this batch are lost, earlier ones are safe"
        )
        self.path = path
        self.rows_lost = rows_lost


class Recorder:
    """The recorder. Typed methods hold rows and may be called from any thread; one thread calls `pump` and `close`."""

    def __init__(self, directory: Path, start_ns: int, reference: Reference | None = None) -> None:
        """Open or create `directory/run.sqlite`.

        `start_ns` is the start of a new history; an existing one keeps its own.
        """
        self.path = directory / "run.sqlite"
        self._directory = directory
        self._reference = reference
        self._held: list[Row] = []
        self._batches: list[_Batch] = []
        self._lock = threading.Lock()
        self._series: dict[str, int] = {}
        self._prompts: dict[str, str] = {}  # canary request -> prompt digest, until its reply arrives
        self._connection = open_history(self.path)
        self._offsets = {name: int(self._meta(f"taken.{name}") or 0) for name in SPOOLS}
        known = self._meta("start_ns")
        self.start_ns = int(known) if known is not None else start_ns
        if known is None:
            self.meta("start_ns", str(start_ns))
        for identity, name in self._connection.execute("SELECT id, name FROM series"):
            self._series[name] = identity
        self._remember_prompts()

    # -- rows of the harness ---------------------------------------------------------------------------------------

    def meta(self, key: str, value: str) -> None:
        """Set a value of table meta; the last value counts."""
        self._hold(Row("meta", (key, value)))

    def clock(self, t_ns: int, real_ns: int, boot_ns: int, proc: str, offset_ns: int, err_ns: int) -> None:
        self.put("clock", t_ns=t_ns, real_ns=real_ns, boot_ns=boot_ns, proc=proc, offset_ns=offset_ns, err_ns=err_ns)

    def phase(self, name: str, n: int, start_ns: int, end_ns: int | None, ended_by: str | None) -> None:
        """Record a phase. A second call with the same name and n replaces the row, to add its end."""
        self.put("phase", name=name, n=n, start_ns=start_ns, end_ns=end_ns, ended_by=ended_by)

    def event(self, t_ns: int, proc: str, kind: str, value: float | None = None, detail: str | None = None) -> None:
        self.put("event", t_ns=t_ns, proc=proc, kind=kind, value=value, detail=detail)

    def series(
        self, name: str, unit: str, kind: str, source: str, period_ns: int | None, absent: str | None = None
    ) -> int:
        """Declare a series and return its id; the first declaration counts.

        `absent` is the reason for a missing sensor.
        """
        with self._lock:
            identity, row = self._declare(name, unit, kind, source, period_ns, absent)
            if row is not None:
                self._held.append(row)
        return identity

    def absent(self, name: str, reason: str | None) -> None:
        """Set the reason why a declared series has no sensor; None when it has one."""
        self._hold(Row("series.absent", (reason, name)))

    def sample(self, series: int, t_ns: int, value: float) -> None:
        self._hold(Row("sample", (series, t_ns - self.start_ns, value)))

    def put(self, table: str, **fields: Any) -> None:
        """Record a row of any other table by column names. It asserts that the table has these columns."""
        row = row_of(table, fields, self.start_ns)
        assert not row.surplus, f"table {table} has no column {', '.join(row.surplus)}"
        self._hold(row)

    def put_many(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Record rows in column order whose times are relative to the run's start, for the virtual drive."""
        with self._lock:
            self._batches.append((table, list(rows)))

    # -- writing ---------------------------------------------------------------------------------------------------

    def pump(self) -> int:
        """Commit the rows of methods and spools. Returns the number of rows. Raises HistoryFull."""
        with self._lock:
            held, self._held = self._held, []
            batches, self._batches = self._batches, []
        written = self._commit(held, {}, batches)
        for name in SPOOLS:
            more = True
            while more:
                rows, offset, more = self._take(name)
                written += self._commit(rows, {name: offset})
        return written

    def close(self) -> None:
        """Pump and close. Afterwards the file is complete without its WAL."""
        try:
            self.pump()
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._connection.close()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is not None and issubclass(kind, HistoryFull):
            self._connection.close()
        else:
            self.close()

    # -- rows of spool lines ---------------------------------------------------------------------------------------

    def _take(self, name: str) -> tuple[list[Row], int, bool]:
        offset = self._offsets[name]
        try:
            found = read_tail(self._directory / name, offset)
        except FileShrank as error:
            return self._shrank(name, str(error))
        odd: Counter[str] = Counter()
        rows = [row for line in found.lines for row in self._rows(line, SPOOLS[name], odd)]
        if found.garbage:
            odd["spool_garbage"] += found.garbage
        if odd:
            rows += [self._remark(kind, count, name) for kind, count in sorted(odd.items())]
        return rows, found.offset, found.more

    def _rows(self, line: dict[str, Any], proc: str, odd: Counter[str]) -> list[Row]:
        kind = line["e"]
        if kind == "self":
            return self._self_rows(line)
        if kind == "canary_reply":
            return self._canary_rows(line, odd)
        if kind not in ROW_KINDS:
            odd[f"spool_unknown {kind[:40]}"] += 1
            return []
        if kind == "request" and line.get("kind") == "canary":
            self._prompts[str(line.get("id"))] = str(line.get("prompt_sha"))
        row = row_of(kind, line, self.start_ns, proc)
        for name in row.surplus:
            odd[f"spool_surplus {kind}.{name[:40]}"] += 1
        return [row]

    def _self_rows(self, line: dict[str, Any]) -> list[Row]:
        t_ns = line.get("t_ns")
        if not isinstance(t_ns, int):
            return []
        rows: list[Row] = []
        for key, (name, unit, kind) in SELF_SERIES.items():
            value = line.get(key)
            if isinstance(value, (int, float)):
                with self._lock:
                    identity, declared = self._declare(name, unit, kind, "load", 1_000_000_000, None)
                rows += [declared] if declared is not None else []
                rows.append(Row("sample", (identity, t_ns - self.start_ns, float(value))))
        return rows

    def _canary_rows(self, line: dict[str, Any], odd: Counter[str]) -> list[Row]:
        request = str(line.get("request"))
        prompt_sha = self._prompts.pop(request, None)
        known = self._reference.answers.get(prompt_sha) if self._reference and prompt_sha else None
        name = self._reference.name if self._reference else None
        try:
            answer = answer_of(line)
        except ValueError:
            odd["spool_garbage"] += 1
            return []
        tokens = answer.text if answer.tokens is None else list(answer.tokens)
        if known is None:  # without a reference the tokens are kept for the comparison with the baseline
            fields: dict[str, Any] = {"request": request, "reference": None, "tokens": tokens, "state": "unknown"}
        else:
            seen = compare(known, answer)
            fields = {"request": request, "reference": name, "tokens": tokens, "compared": seen.compared,
                      "parted_at": seen.parted_at, "margin": seen.margin, "state": seen.state}  # fmt: skip
        return [row_of("canary", fields, self.start_ns)]

    def _remark(self, kind: str, count: int, file: str) -> Row:
        """An event about a spool itself, at the latest time of the history, since the line has no valid time."""
        word, _, what = kind.partition(" ")
        latest = self._connection.execute("SELECT max(t_ns) FROM event").fetchone()[0] or 0
        detail = f"{file}: {what}" if what else file
        return row_of("event", {"t_ns": latest, "proc": "harness", "kind": word, "value": count, "detail": detail}, 0)

    def _shrank(self, name: str, why: str) -> tuple[list[Row], int, bool]:
        offset = self._offsets[name]
        if self._meta(f"shrank.{name}") is not None:
            return [], offset, False
        return [Row("meta", (f"shrank.{name}", why)), self._remark("spool_shrank", 1, name)], offset, False

    # -- SQLite ----------------------------------------------------------------------------------------------------

    def _commit(self, rows: list[Row], offsets: Mapping[str, int], batches: Sequence[_Batch] = ()) -> int:
        moved = {name: offset for name, offset in offsets.items() if offset != self._offsets[name]}
        if not rows and not moved and not batches:
            return 0
        number = len(rows) + sum(len(batch) for _, batch in batches)
        try:
            with self._connection:
                taken = [Row("meta", (f"taken.{name}", str(offset))) for name, offset in moved.items()]
                for table, group in itertools.groupby([*rows, *taken], key=lambda row: row.table):
                    write_rows(self._connection, table, [row.values for row in group])
                for table, batch in batches:
                    write_rows(self._connection, table, batch)
        except (sqlite3.OperationalError, OSError) as error:
            raise HistoryFull(self.path, error, number) from error
        self._offsets.update(moved)
        return number

    def _declare(
        self, name: str, unit: str, kind: str, source: str, period_ns: int | None, absent: str | None
    ) -> tuple[int, Row | None]:
        """The id of a series, and its row when it is new. The caller holds the lock and stores the row."""
        identity = self._series.get(name)
        if identity is not None:
            return identity, None
        identity = self._series[name] = len(self._series) + 1
        return identity, Row("series", (identity, name, unit, kind, source, period_ns, absent))

    def _hold(self, row: Row) -> None:
        with self._lock:
            assert len(self._held) < ROWS_HELD_MAX, "nobody pumps the recorder"
            self._held.append(row)

    def _meta(self, key: str) -> str | None:
        found = self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if found is None else str(found[0])

    def _remember_prompts(self) -> None:
        """Load the prompts of canaries whose reply was not taken when an earlier recorder died."""
        query = """SELECT id, prompt_sha FROM request LEFT JOIN canary ON canary.request = request.id
                   WHERE kind = 'canary' AND canary.request IS NULL"""
        self._prompts.update(self._connection.execute(query))
