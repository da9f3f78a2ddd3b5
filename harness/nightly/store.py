"""trials.sqlite holds every trial of every night. Trials are added one by one, so that a killed night keeps them."""

import json
import sqlite3
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

from assertions.verdict import Judged, Level, State
from harness.exits import Refusal
from harness.nightly.trial import Trial, scalars

VERSION = 1
TABLES = (
    """CREATE TABLE trial (
        id INTEGER PRIMARY KEY, night TEXT, scenario TEXT, control INTEGER, host_class TEXT, started TEXT, state TEXT,
        exit INTEGER, wall_s REAL, because TEXT, run_id TEXT, run_dir TEXT, "commit" TEXT, dirty INTEGER, seed INTEGER,
        drive TEXT, means TEXT, replay TEXT)""",
    """CREATE TABLE judge (
        trial INTEGER REFERENCES trial, name TEXT, level TEXT, state TEXT, text TEXT, "limit" TEXT, observed TEXT,
        figures TEXT)""",
    "CREATE TABLE scalar (trial INTEGER REFERENCES trial, metric TEXT, value REAL, unit TEXT)",
    "CREATE INDEX trial_scenario ON trial (scenario, host_class, night)",
    "CREATE INDEX judge_trial ON judge (trial)",
    "CREATE INDEX scalar_trial ON scalar (trial)",
    "CREATE INDEX scalar_metric ON scalar (metric)",
)
COLUMNS = tuple(each.name for each in fields(Trial) if each.name != "judges")
"""The columns of table trial after its id."""
BUSY_S = 30.0
"""Longest wait (s) for the lock of another night that writes at the same time."""


class Store:
    """Open until `close`, or until the end of `with`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the database, or create it. Raises Refusal for a file that is not a database of this version."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, timeout=BUSY_S)
        except (OSError, sqlite3.OperationalError) as problem:
            raise Refusal(f"{path} can't be opened: {problem}") from None
        try:
            _prepare(connection, path)
        except sqlite3.DatabaseError as problem:
            connection.close()
            raise Refusal(f"{path}: {problem}; give another --runs-dir, or move it away") from None
        except BaseException:
            connection.close()
            raise
        return cls(connection)

    def add(self, trial: Trial) -> None:
        """Add a trial with its judges and figures in one transaction."""
        row = [getattr(trial, name) for name in COLUMNS]
        with self._connection as writing:
            holes = ",".join("?" * len(row))
            identity = writing.execute(f"INSERT INTO trial VALUES (NULL,{holes})", row).lastrowid  # noqa: S608
            writing.executemany(
                "INSERT INTO judge VALUES (?,?,?,?,?,?,?,?)", [(identity, *_judge_row(one)) for one in trial.judges]
            )
            writing.executemany(
                "INSERT INTO scalar VALUES (?,?,?,?)",
                [(identity, each.metric, each.value, each.unit) for each in scalars(trial)],
            )

    def trials(self, scenario: str, host_class: str, *, until: str, nights_max: int) -> tuple[Trial, ...]:
        """The trials of the last `nights_max` nights up to and including `until`, oldest first."""
        sql = """SELECT * FROM trial WHERE scenario = ?1 AND host_class = ?2 AND night <= ?3 AND night IN
            (SELECT DISTINCT night FROM trial WHERE scenario = ?1 AND host_class = ?2 AND night <= ?3
             ORDER BY night DESC LIMIT ?4) ORDER BY night, id"""
        found = self._connection.execute(sql, (scenario, host_class, until, nights_max)).fetchall()
        return tuple(self._trial(row) for row in found)

    def night_before(self, host_class: str, night: str) -> tuple[str, ...]:
        """Names of the scenarios that ran in the last night before `night`, without controls."""
        sql = """SELECT DISTINCT scenario FROM trial WHERE host_class = ?1 AND NOT control AND night =
            (SELECT max(night) FROM trial WHERE host_class = ?1 AND NOT control AND night < ?2) ORDER BY scenario"""
        return tuple(name for (name,) in self._connection.execute(sql, (host_class, night)))

    def _trial(self, row: tuple[Any, ...]) -> Trial:
        values = dict(zip(COLUMNS, row[1:], strict=True))
        values |= {"control": bool(values["control"]), "dirty": bool(values["dirty"]), "state": State(values["state"])}
        query = 'SELECT name, level, state, text, "limit", observed, figures FROM judge WHERE trial = ?'
        return Trial(**values, judges=tuple(_judged(*each) for each in self._connection.execute(query, row[:1])))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    with closing(connection.cursor()) as cursor:
        cursor.execute("BEGIN IMMEDIATE")  # two nights that start together make the tables once
        version = cursor.execute("PRAGMA user_version").fetchone()[0]
        if version == 0 and not cursor.execute("SELECT 1 FROM sqlite_master").fetchone():
            for statement in TABLES:
                cursor.execute(statement)
            cursor.execute(f"PRAGMA user_version = {VERSION}")
            version = VERSION
        connection.commit()
    if version != VERSION:
        raise Refusal(
            f"{path} has version {version}, and this seatrial writes version {VERSION}: give another --runs-dir"
        )


def _judge_row(one: Judged) -> tuple[str | None, ...]:
    figures = json.dumps({name: float(value) for name, value in one.figures.items()})
    return one.name, one.level, one.state, one.text, one.limit, one.observed, figures


def _judged(
    name: str, level: str, state: str, text: str, limit: str | None, observed: str | None, figures: str
) -> Judged:
    because = None if state in (State.PASS, State.FAIL) else text
    found = json.loads(figures)
    return Judged(name, State(state), text, Level(level), limit, observed, because=because, figures=found)
