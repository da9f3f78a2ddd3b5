"""From a spool line to rows of the history: which kinds there are, and which columns are stamps.

Pure. A line carries the column names of its table; unknown names are reported, missing ones become NULL.
"""

import json
from dataclasses import dataclass
from typing import Any

from assertions.schema import columns

Value = int | float | str | None

# Columns that hold a moment (raw CLOCK_MONOTONIC in spools, run time in the history). Other _ns columns are lengths.
STAMPS = frozenset(
    {
        "t_ns",
        "start_ns",
        "end_ns",
        "intended_ns",
        "sent_ns",
        "head_ns",
        "first_ns",
        "last_ns",
        "cancel_ns",
        "arrive_ns",
        "admit_ns",
        "arm_ns",
        "heal_ns",
    }
)
ROW_KINDS = frozenset({"request", "reply", "served", "fault", "fire", "hist", "mark", "audit", "event", "step"})

# Figures of a `self` line that become series: name, unit, kind.
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
    """One row for one table; `values` in the table's column order. `surplus` are names that the table lacks."""

    table: str
    values: tuple[Value, ...]
    surplus: tuple[str, ...] = ()


_COLUMNS = {table: columns(table) for table in (*ROW_KINDS, "clock", "phase", "series", "sample", "canary")}


def row_of(table: str, line: dict[str, Any], start_ns: int, proc: str | None = None) -> Row:
    """The row of a line, its stamps moved to run time. `proc` fills that column where the line has none."""
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
    """What SQLite can hold. NUL ends a text for many readers, so it is shown as U+2400; ints beyond 64 bits as text."""
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
