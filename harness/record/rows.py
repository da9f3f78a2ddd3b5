"""Converts spool lines to rows of the history.

A line has the column names of its table. Unknown names are reported, and missing names become NULL.
"""

import json
from dataclasses import dataclass
from typing import Any

from assertions.schema import columns

Value = int | float | str | None

# Columns with a time (raw CLOCK_MONOTONIC in spools, since the run's start in the history). Other _ns columns are
# durations.
STAMPS = frozenset(
    """t_ns start_ns end_ns intended_ns sent_ns head_ns first_ns last_ns cancel_ns arrive_ns admit_ns arm_ns
    heal_ns""".split()
)
ROW_KINDS = frozenset(
    {"request", "reply", "served", "hang_up", "fault", "fire", "hist", "mark", "audit", "event", "step"}
)

# Keys of a `self` line that become series: name, unit, kind.
SELF_SERIES: dict[str, tuple[str, str, str]] = {
    "lateness_ms_p99": ("load.lateness_ms_p99", "ms", "gauge"),
    "lateness_ms_max": ("load.lateness_ms_max", "ms", "gauge"),
    "in_flight": ("load.in_flight", "requests", "gauge"),
    "dropped": ("load.dropped", "requests", "counter"),
    "sent": ("load.sent", "requests", "counter"),
    "done": ("load.done", "requests", "counter"),
    "cpu": ("load.self_cpu", "cores", "gauge"),
    "rss_bytes": ("load.self_rss", "bytes", "gauge"),
}


@dataclass(frozen=True)
class Row:
    """A row of one table. `values` are in column order; `surplus` holds names that the table lacks."""

    table: str
    values: tuple[Value, ...]
    surplus: tuple[str, ...] = ()


_COLUMNS = {table: columns(table) for table in (*ROW_KINDS, "clock", "phase", "series", "sample", "canary")}


def row_of(table: str, line: dict[str, Any], start_ns: int, proc: str | None = None) -> Row:
    """The row of a line with times relative to the run's start. `proc` is the default of that column."""
    names = _COLUMNS[table]
    values = []
    for name in names:
        value = line.get(name)
        if name == "proc" and value is None:
            value = proc
        if name in STAMPS and isinstance(value, int):
            value -= start_ns
        values.append(_plain(value))
    known = {*names, "e"}
    return Row(table, tuple(values), tuple(sorted(key for key in line if key not in known)))


def _plain(value: Any) -> Value:
    """Convert a value for SQLite.

    NUL becomes U+2400 because it ends text for many readers; ints over 64 bits become text.
    """
    if value is None or isinstance(value, float):
        return value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 63 else str(value)
    if isinstance(value, str):
        clean = value.replace("\0", "\u2400") if "\0" in value else value
        return clean.encode("utf-8", "backslashreplace").decode() if _has_surrogate(clean) else clean
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)
