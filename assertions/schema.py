"""The tables of run.sqlite, history version 1. The recorder writes them and the judges read them.

Times are integers, nanoseconds of CLOCK_MONOTONIC since the run's start (virtual time in virtual runs).
NULL means "not seen", never 0. There are no foreign keys: rows of one run arrive from three processes in any order, and
a killed process leaves rows whose partner never arrives. Such rows are evidence and not an error.
"""

import sqlite3

HISTORY_VERSION = 1

# Column order is part of the format: `seatrial digest` hashes rows in it.
TABLES: dict[str, str] = {
    "meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)",
    "clock": """CREATE TABLE clock (
        t_ns INTEGER, real_ns INTEGER, boot_ns INTEGER, proc TEXT, offset_ns INTEGER, err_ns INTEGER)""",
    "phase": """CREATE TABLE phase (
        name TEXT, n INTEGER, start_ns INTEGER, end_ns INTEGER, ended_by TEXT)""",
    "request": """CREATE TABLE request (
        id TEXT, load TEXT, kind TEXT, grp TEXT, worker TEXT, plan_row INTEGER, prompt_sha TEXT,
        prompt_tokens INTEGER, output_tokens_max INTEGER, intended_ns INTEGER, sent_ns INTEGER, cancel_at TEXT)""",
    "reply": """CREATE TABLE reply (
        request TEXT, head_ns INTEGER, first_ns INTEGER, last_ns INTEGER, end_ns INTEGER, cancel_ns INTEGER,
        outcome TEXT, http INTEGER, finish TEXT, error TEXT, retry_after_s REAL, prompt_tokens INTEGER,
        output_tokens INTEGER, tokens_from TEXT, chunks INTEGER, gap_ns_sum INTEGER, gap_ns_max INTEGER,
        text_sha TEXT, sample TEXT)""",
    "served": """CREATE TABLE served (
        request TEXT, server_id TEXT, proc TEXT, arrive_ns INTEGER, admit_ns INTEGER, first_ns INTEGER,
        end_ns INTEGER, outcome TEXT, finish TEXT, code TEXT, tokens_in INTEGER, tokens_out INTEGER,
        tokens_cached INTEGER, preempted INTEGER, fallback TEXT)""",
    "hang_up": """CREATE TABLE hang_up (
        request TEXT, server_id TEXT, proc TEXT, t_ns INTEGER, why TEXT, tokens_seen INTEGER, end_ns INTEGER,
        outcome TEXT, tokens INTEGER)""",
    "fault": """CREATE TABLE fault (
        id TEXT, n INTEGER, spec TEXT, seed INTEGER, arm_ns INTEGER, first_ns INTEGER, heal_ns INTEGER,
        healed_by TEXT, hits INTEGER, fired INTEGER, fired_min INTEGER, state TEXT)""",
    "fire": """CREATE TABLE fire (
        fault TEXT, n INTEGER, t_ns INTEGER, hit INTEGER, point TEXT, step INTEGER, request TEXT, grp TEXT,
        evidence TEXT, proof TEXT)""",
    "series": """CREATE TABLE series (
        id INTEGER PRIMARY KEY, name TEXT, unit TEXT, kind TEXT, source TEXT, period_ns INTEGER, absent TEXT)""",
    "sample": "CREATE TABLE sample (series INTEGER, t_ns INTEGER, value REAL)",
    "hist": """CREATE TABLE hist (
        t_ns INTEGER, width_ns INTEGER, load TEXT, metric TEXT, bucket INTEGER, n INTEGER)""",
    "canary": """CREATE TABLE canary (
        request TEXT, reference TEXT, tokens TEXT, compared INTEGER, parted_at INTEGER, margin REAL, state TEXT)""",
    "audit": """CREATE TABLE audit (
        t_ns INTEGER, scope TEXT, name TEXT, kind TEXT, owner TEXT, value REAL, expected REAL, unit TEXT,
        history TEXT)""",
    "mark": "CREATE TABLE mark (name TEXT, t_ns INTEGER, n INTEGER)",
    "event": "CREATE TABLE event (t_ns INTEGER, proc TEXT, kind TEXT, value REAL, detail TEXT)",
    "step": """CREATE TABLE step (
        n INTEGER, t_ns INTEGER, dur_ns INTEGER, batch INTEGER, tokens INTEGER, graph TEXT, fallback TEXT,
        detail TEXT)""",
}

# Lookups of the judges: join by request, walk by time. An index costs the writer little beside the fsync.
INDEXES: tuple[str, ...] = (
    "CREATE INDEX request_id ON request (id)",
    "CREATE INDEX reply_request ON reply (request)",
    "CREATE INDEX served_request ON served (request)",
    "CREATE INDEX sample_series ON sample (series, t_ns)",
    "CREATE INDEX fire_fault ON fire (fault, n)",
    "CREATE INDEX mark_name ON mark (name, t_ns)",
)


def create(connection: sqlite3.Connection) -> None:
    """Create every table and index in an empty database and set the history version (`PRAGMA user_version`)."""
    with connection:
        for statement in TABLES.values():
            connection.execute(statement)
        for statement in INDEXES:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {HISTORY_VERSION}")


def columns(table: str) -> tuple[str, ...]:
    """The column names of a table, in their stored order. Raises KeyError for an unknown table."""
    body = TABLES[table].split("(", 1)[1].rsplit(")", 1)[0]
    return tuple(part.split()[0] for part in body.split(","))
