"""The files of one run directory, opened read-only. A missing file is a reason and never a zero."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assertions import schema
from assertions.history import History

Json = dict[str, Any]  # a decoded file; each section converts the keys that it needs


class NoRun(Exception):
    """The directory holds no run. The text says what was given and what is needed."""


@dataclass(frozen=True)
class RunFiles:
    """The files of one run. The history is empty when run.sqlite is absent or broken, and `missing` has the reason."""

    run_dir: Path
    plan: Json
    verdict: Json
    history: History
    connection: sqlite3.Connection  # the connection of `history`, for queries of a report
    missing: tuple[tuple[str, str], ...]

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        """All rows of a query. `walk` streams them."""
        return list(self.walk(sql, values))

    def walk(self, sql: str, values: Sequence[object] = ()) -> Iterator[sqlite3.Row]:
        cursor = self.connection.cursor()
        cursor.row_factory = sqlite3.Row
        yield from cursor.execute(sql, tuple(values))

    def judged(self, verdict: Json) -> "RunFiles":
        """The run with this verdict in place of verdict.json."""
        missing = tuple(item for item in self.missing if item[0] != "verdict.json")
        return replace(self, verdict=verdict, missing=missing)

    def without_history(self, reason: str) -> "RunFiles":
        """The run with an empty history, for a database whose header is valid and a later page is not."""
        empty = _empty()
        missing = (*self.missing, ("run.sqlite", reason))
        return replace(self, history=History(empty), connection=empty, missing=missing)


@contextmanager
def opened(run_dir: Path) -> Iterator[RunFiles]:
    """Open a run directory for reading. Raises NoRun when plan, verdict and history are all missing."""
    missing: list[tuple[str, str]] = []
    plan, verdict = _json(run_dir / "plan.json", missing), _json(run_dir / "verdict.json", missing)
    recorded = _connect(run_dir / "run.sqlite", missing)
    if not (plan or verdict or recorded):
        raise NoRun(f"{run_dir} is not a run: no readable plan.json, verdict.json or run.sqlite in it")
    connection = recorded or _empty()
    try:
        yield RunFiles(run_dir, plan, verdict, History(connection), connection, tuple(missing))
    finally:
        connection.close()


def _json(path: Path, missing: list[tuple[str, str]]) -> Json:
    try:
        decoded = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        missing.append((path.name, "not written"))
    except (OSError, ValueError) as problem:
        missing.append((path.name, f"unreadable: {problem}"))
    else:
        if isinstance(decoded, dict):
            return decoded
        missing.append((path.name, f"unreadable: holds a {type(decoded).__name__}, not an object"))
    return {}


def _connect(path: Path, missing: list[tuple[str, str]]) -> sqlite3.Connection | None:
    if not path.exists():
        missing.append((path.name, "not written"))
        return None
    # A WAL database in a read-only folder (an archived artifact) opens only as immutable.
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True)
        # Bytes of a reply that are not UTF-8 are shown as escapes.
        connection.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")
        try:
            connection.execute("SELECT (SELECT count(*) FROM phase) + (SELECT count(*) FROM meta)").fetchone()
        except sqlite3.DatabaseError as problem:
            connection.close()
            reason = str(problem)
        else:
            return connection
    missing.append((path.name, f"unreadable: {reason}"))
    return None


def _empty() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    schema.create(connection)
    return connection
