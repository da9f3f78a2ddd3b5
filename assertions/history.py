"""History reads run.sqlite: typed rows for small tables, NumPy columns for requests and samples.

A run may have been killed at any moment. A missing table reads as empty, a request without a reply has the outcome
`unfinished`, and a dropped arrival has no time of sending.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from assertions import fault_occurrences, schema
from assertions.rows import (
    Audit,
    Canary,
    Event,
    FaultRow,
    Fire,
    Floats,
    HangUp,
    Histogram,
    Mask,
    Phase,
    Requests,
    Samples,
    Served,
    TextColumn,
)

# Readers of a History need its row types, so all of them come from here.
__all__ = [
    "Audit", "Canary", "Event", "FaultRow", "Fire", "Floats", "HangUp", "Histogram", "History", "Mask", "Phase",
    "Requests", "Samples", "Served", "TextColumn",
]  # fmt: skip

BATCH_ROWS = 20_000
CUT_SHORT = ("signal", "died", "abort")


class History:
    """A recorded run, opened read-only. Close it soon: an open reader makes the writer's WAL grow."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Open a file. Raises FileNotFoundError, or sqlite3.DatabaseError when it is not a history."""
        file = Path(path)
        if not file.is_file():
            raise FileNotFoundError(f"no history at {file}: give the run.sqlite of a run directory")
        connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return cls(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @cached_property
    def requests(self) -> Requests:
        """All arrivals, each joined with its first reply; see `doubled_replies` for further ones."""
        # The names of fields of Requests, in the order of the columns below.
        texts = ("load", "kind", "group", "outcome", "finish", "tokens_from", "cancel_at")
        stamps = ("intended_ns", "sent_ns", "first_ns", "last_ns", "end_ns", "cancel_ns")
        counts = ("http", "prompt_tokens", "prompt_tokens_sent", "output_tokens", "output_tokens_max", "chunks")
        ids, words, floats = self._columns(
            """SELECT r.id, r.load, r.kind, r.grp,
                 CASE WHEN r.sent_ns IS NULL THEN 'dropped' ELSE coalesce(p.outcome, 'unfinished') END,
                 p.finish, p.tokens_from, r.cancel_at,
                 r.intended_ns, r.sent_ns, p.first_ns, p.last_ns, p.end_ns, p.cancel_ns, p.http,
                 p.prompt_tokens, r.prompt_tokens, p.output_tokens, r.output_tokens_max, p.chunks
               FROM request r LEFT JOIN reply p
                 ON p.rowid = (SELECT min(rowid) FROM reply WHERE request = r.id)
               ORDER BY coalesce(r.sent_ns, r.intended_ns), r.rowid""",
            len(texts),
            len(stamps) + len(counts),
            needs=("request", "reply"),
        )
        columns: dict[str, Any] = dict(zip((*texts, *stamps, *counts), (*words, *floats), strict=True))
        return Requests(id=ids, **columns)

    @cached_property
    def meta(self) -> dict[str, str]:
        return {str(key): str(value) for key, value in self._rows("meta", "SELECT key, value FROM meta")}

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        rows = self._rows("phase", "SELECT name, n, start_ns, end_ns, ended_by FROM phase ORDER BY start_ns, rowid")
        return tuple(Phase(str(a), int(b or 0), int(c or 0), d, e) for a, b, c, d, e in rows)

    @cached_property
    def faults(self) -> tuple[FaultRow, ...]:
        counted = Counter((fire.fault, fire.n) for fire in self.fires)
        rows = self._rows("fault", f"SELECT {fault_occurrences.COLUMNS} FROM fault ORDER BY rowid")  # noqa: S608 - our own names
        return fault_occurrences.occurrences(rows, counted, self.events)

    @cached_property
    def fires(self) -> tuple[Fire, ...]:
        rows = self._rows("fire", "SELECT fault, n, t_ns, request, grp, evidence FROM fire ORDER BY t_ns, rowid")
        return tuple(
            Fire(
                str(a),
                int(b or 0),
                int(c),
                tuple(part for part in str(d or "").replace(" ", "").split(",") if part),
                e,
                f,
            )
            for a, b, c, d, e, f in rows
        )

    @cached_property
    def audits(self) -> tuple[Audit, ...]:
        rows = self._rows(
            "audit",
            "SELECT t_ns, scope, name, kind, owner, value, expected, unit, history FROM audit ORDER BY t_ns, rowid",
        )
        return tuple(Audit(int(r[0]), str(r[1]), str(r[2]), str(r[3]), *r[4:]) for r in rows)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        rows = self._rows("event", "SELECT t_ns, proc, kind, value, detail FROM event ORDER BY t_ns, rowid")
        return tuple(Event(int(a or 0), str(b or ""), str(c), d, str(e or "")) for a, b, c, d, e in rows)

    @cached_property
    def canaries(self) -> tuple[Canary, ...]:
        """All canaries. The first row counts where a request id occurs twice."""
        rows = self._rows(
            "canary",
            """SELECT c.request, c.reference, c.compared, c.parted_at, c.margin, c.state, c.tokens,
                 (SELECT prompt_sha FROM request WHERE id = c.request)
               FROM canary c ORDER BY c.rowid""",
        )
        return tuple(Canary(str(row[0]), row[1], int(row[2] or 0), *row[3:]) for row in rows)

    @cached_property
    def marks(self) -> dict[str, Floats]:
        """The times (ns) at which each mark was counted, by name."""
        times: dict[str, list[float]] = {}
        for name, t_ns, n in self._rows("mark", "SELECT name, t_ns, n FROM mark ORDER BY t_ns, rowid"):
            if n is None or n > 0:
                times.setdefault(str(name), []).append(float(t_ns))
        return {name: np.array(values) for name, values in times.items()}

    def samples(self, name: str) -> Samples | None:
        """The samples of a series; None when no series of this name was declared."""
        rows = list(self._rows("series", "SELECT id, period_ns, absent FROM series WHERE name = ? LIMIT 1", (name,)))
        if not rows:
            return None
        identity, period_ns, absent = rows[0]
        values = [
            (float(t), float("nan") if v is None else float(v))
            for t, v in self._rows(
                "sample", "SELECT t_ns, value FROM sample WHERE series = ? ORDER BY t_ns", (identity,)
            )
        ]
        table = np.array(values, dtype=np.float64).reshape(-1, 2)
        seen = ~np.isnan(table[:, 1])
        return Samples(name, table[seen, 0], table[seen, 1], period_ns, absent)

    @cached_property
    def counters(self) -> tuple[str, ...]:
        """The names of the recorded series that only ever count up."""
        return tuple(str(row[0]) for row in self._rows("series", "SELECT name FROM series WHERE kind = 'counter'"))

    def summed_samples(self, name: str, *added: str) -> tuple[Samples | None, str]:
        """A series with others added at its times where they were recorded; or None and the reason."""
        main = self.samples(name)
        if main is None or not len(main.value):
            why = f" ({main.absent})" if main is not None and main.absent else ""
            return None, f"no samples of {name}{why}"
        value = main.value
        for each in added:
            other = self.samples(each)
            if other is not None and len(other.value):
                value = value + np.interp(main.t_ns, other.t_ns, other.value)
        return Samples(name, main.t_ns, value, main.period_ns, None), ""

    def child_series(self, name: str) -> dict[str, str]:
        """Child -> its own series, for the series `<process>.<what>` of a watched process."""
        process, _, what = name.partition(".")
        head, tail = f"{process}.child.", f".{what}"
        names = [str(row[0]) for row in self._rows("series", "SELECT name FROM series")]
        return {each[len(head) : -len(tail)]: each for each in names if each.startswith(head) and each.endswith(tail)}

    def histogram(self, metric: str) -> Histogram:
        _, words, floats = self._columns(
            "SELECT '', load, t_ns, width_ns, bucket, n FROM hist WHERE metric = ? ORDER BY t_ns, rowid",
            1,
            4,
            needs=("hist",),
            parameters=(metric,),
        )
        return Histogram(floats[0], floats[1], words[0], floats[2], floats[3])

    def served(self) -> Iterator[Served]:
        query = """SELECT request, server_id, end_ns, outcome, finish, tokens_out, tokens_in, tokens_cached, preempted,
                     first_ns FROM served ORDER BY rowid"""
        for row in self._rows("served", query):
            yield Served(*row)

    @cached_property
    def hang_ups(self) -> dict[str, HangUp]:
        """By request: what the server wrote about a client that left; the first row counts."""
        query = """SELECT request, t_ns, why, tokens_seen, end_ns, outcome, tokens FROM hang_up
                   WHERE request IS NOT NULL ORDER BY rowid DESC"""
        return {str(row[0]): HangUp(*row[1:]) for row in self._rows("hang_up", query)}

    @cached_property
    def served_stamps(self) -> dict[str, tuple[float, float, float, float]]:
        """By request: when (ns) it came to the server, was admitted, had its first token and ended; NaN if unseen."""
        query = "SELECT request, arrive_ns, admit_ns, first_ns, end_ns FROM served WHERE request IS NOT NULL"
        ids, _, columns = self._columns(query, 0, 4, needs=("served",))
        return dict(zip(ids, zip(*(column.tolist() for column in columns), strict=True), strict=True))

    def doubled_replies(self) -> list[tuple[str, int]]:
        """Requests with more than one terminal outcome: (id, number of outcomes)."""
        query = "SELECT request, count(*) FROM reply GROUP BY request HAVING count(*) > 1"
        return [(str(a), int(b)) for a, b in self._rows("reply", query)]

    def doubled_requests(self) -> list[tuple[str, int]]:
        query = "SELECT id, count(*) FROM request GROUP BY id HAVING count(*) > 1"
        return [(str(a), int(b)) for a, b in self._rows("request", query)]

    def orphan_replies(self) -> list[str]:
        """Ids of replies whose request was never recorded."""
        query = "SELECT p.request FROM reply p LEFT JOIN request r ON r.id = p.request WHERE r.id IS NULL"
        return [str(row[0]) for row in self._rows("reply", query)] if "request" in self._tables else []

    @cached_property
    def end_ns(self) -> int:
        """The last time (ns) at which anything was recorded."""
        moments = [phase.end_ns or phase.start_ns for phase in self.phases]
        for table, column in (("reply", "end_ns"), ("request", "sent_ns"), ("event", "t_ns"), ("audit", "t_ns")):
            moments += [row[0] or 0 for row in self._rows(table, f"SELECT max({column}) FROM {table}")]  # noqa: S608
        return max(moments, default=0)

    @property
    def cut_short(self) -> str | None:
        """The reason why the run did not come to its planned end; None when it did."""
        if not self.phases:
            return "no phase was recorded"
        for phase in self.phases:
            if phase.ended_by in CUT_SHORT:
                return f"{phase.name} was ended by {phase.ended_by}"
            if phase.end_ns is None:
                return f"{phase.name} never ended: the harness died"
        if self.phases[-1].name != "drain":
            return f"the last phase recorded is {self.phases[-1].name}, not drain"
        return None

    @cached_property
    def _tables(self) -> frozenset[str]:
        return frozenset(row[0] for row in self._connection.execute("SELECT name FROM sqlite_master"))

    def _rows(self, table: str, query: str, parameters: tuple[object, ...] = ()) -> Iterator[tuple[Any, ...]]:
        if table not in schema.TABLES:
            raise KeyError(table)
        return iter(self._connection.execute(query, parameters)) if table in self._tables else iter(())

    def _columns(
        self, query: str, texts: int, numbers: int, needs: tuple[str, ...], parameters: tuple[object, ...] = ()
    ) -> tuple[list[str], list[TextColumn], list[Floats]]:
        """Columns of a query that selects one id, then `texts` text columns, then `numbers` number columns."""
        ids: list[str] = []
        books: list[dict[str | None, int]] = [{} for _ in range(texts)]
        codes: list[list[NDArray[np.int32]]] = [[] for _ in range(texts)]
        values: list[list[Floats]] = [[] for _ in range(numbers)]
        if set(needs) <= self._tables:
            cursor = self._connection.execute(query, parameters)
            while batch := cursor.fetchmany(BATCH_ROWS):
                columns = list(zip(*batch, strict=True))
                ids.extend(map(str, columns[0]))
                for book, parts, column in zip(books, codes, columns[1 : 1 + texts], strict=True):
                    parts.append(np.array([book.setdefault(text, len(book)) for text in column], dtype=np.int32))
                for parts_f, column in zip(values, columns[1 + texts :], strict=True):
                    parts_f.append(np.array(column, dtype=np.float64))  # None becomes NaN
        words = [
            TextColumn(np.concatenate(parts) if parts else np.zeros(0, np.int32), tuple(book))
            for parts, book in zip(codes, books, strict=True)
        ]
        return ids, words, [np.concatenate(parts) if parts else np.zeros(0) for parts in values]
