"""A digest over the deterministic rows of a run. Two runs with equal digests are equal.

`meta` and `clock` are left out, because they depend on machine and time. Virtual runs of one seed have equal digests on
every machine; live runs never have.
"""

import hashlib
import json
import sqlite3
from pathlib import Path

from assertions.schema import TABLES, columns

NOT_DETERMINISTIC = frozenset({"meta", "clock"})


def digest(path: Path) -> str:
    """The digest of a history: 32 hex digits over all deterministic tables, with rows ordered by all columns."""
    whole = hashlib.blake2b(digest_size=16)
    for table, part in table_digests(path).items():
        whole.update(f"{table}:{part}\n".encode())
    return whole.hexdigest()


def table_digests(path: Path) -> dict[str, str]:
    """The digest of each deterministic table, so that a difference can be located. The file is read only."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        return {table: _table(connection, table) for table in TABLES if table not in NOT_DETERMINISTIC}
    finally:
        connection.close()


def _table(connection: sqlite3.Connection, table: str) -> str:
    names = ", ".join(columns(table))
    state = hashlib.blake2b(digest_size=16)
    for row in connection.execute(f"SELECT {names} FROM {table} ORDER BY {names}"):  # noqa: S608 - our own names
        state.update(json.dumps(row, separators=(",", ":")).encode() + b"\n")
    return state.hexdigest()
