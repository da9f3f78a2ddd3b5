"""Opens the history's file and writes rows; in some tables a later row replaces an earlier one."""

import sqlite3
from itertools import chain
from pathlib import Path

from assertions.schema import HISTORY_VERSION, create
from harness.record.rows import Value


def open_history(path: Path) -> sqlite3.Connection:
    """Open a connection for the writer and create the tables of a new file. Raises ValueError for another version."""
    new = not path.exists()
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "PRAGMA synchronous = NORMAL"
        )  # safe against kill -9; a power failure may lose the last batch
        if new:
            create(connection)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != HISTORY_VERSION:
            raise ValueError(f"{path} is history {version}; this seatrial writes history {HISTORY_VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


def write_rows(connection: sqlite3.Connection, table: str, rows: list[tuple[Value, ...]]) -> None:
    """Insert rows of one table. In tables of states a later row replaces the earlier row of the same key."""
    if table == "series.absent":
        connection.executemany("UPDATE series SET absent = ? WHERE name = ?", rows)
        return
    # Table and column names below are our own (assertions.schema), never from outside.
    if table in _STATES:
        match = " AND ".join(f"{name} IS ?" for name in _STATES[table])
        width = len(_STATES[table])
        for row in rows:  # one by one: a batch may hold two states of the same thing
            connection.execute(f"DELETE FROM {table} WHERE {match}", row[:width])  # noqa: S608
            connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)  # noqa: S608
        return
    places = f"({','.join('?' * len(rows[0]))})"
    at_once = _PARAMETERS_MAX // len(rows[0])
    whole = len(rows) // at_once * at_once
    insert = f"INSERT INTO {table} VALUES {','.join([places] * at_once)}"  # noqa: S608
    for at in range(0, whole, at_once):  # one statement for many rows: half the time of one for each
        connection.execute(insert, list(chain.from_iterable(rows[at : at + at_once])))
    connection.executemany(f"INSERT INTO {table} VALUES {places}", rows[whole:])  # noqa: S608


_PARAMETERS_MAX = 999
"""The number of parameters in a statement that every SQLite accepts."""

# Tables of states, and the leading columns that are their key: the last row of a key counts.
# A `persist` fault that a restarted server arms again has another row for the same occurrence.
_STATES: dict[str, tuple[str, ...]] = {
    "meta": ("key",),
    "fault": ("id", "n", "spec", "seed", "arm_ns"),
    "phase": ("name", "n"),
}
