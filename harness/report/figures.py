"""Formats numbers of reports, so that a figure has the same text in every output.

Texts and units are those of the judges (`assertions.formatting`), with MISSING for a missing value.
"""

import math

from assertions import formatting

MISSING = "–"
S_PER_NS = 1e-9
"""Seconds in a nanosecond: the history counts in nanoseconds, a report in seconds."""


def seconds(value: float | None) -> str:
    """Format a duration: `41.2 ms`, `3.05 s`, `80 min`."""
    return MISSING if value is None or math.isnan(value) else formatting.seconds(value)


def at(value_s: float | None) -> str:
    """Format a time of the run since its start: `00:02:14.500`."""
    return MISSING if value_s is None or math.isnan(value_s) else formatting.since_start(round(value_s * 1e9))


def size(value: float | None) -> str:
    """Format a number of bytes: `212 MiB`."""
    return MISSING if value is None or math.isnan(value) else formatting.size(value)


def count(value: float | None) -> str:
    """Format a count: `12,043`."""
    if value is None or math.isnan(value):
        return MISSING
    return f"{value:,.0f}" if float(value).is_integer() else formatting.significant(value)


def share(value: float | None) -> str:
    """Format a share of 1 as a percentage: `4.31 %`. A share above 0 is never shown as `0 %`."""
    if value is None or math.isnan(value):
        return MISSING
    return f"{formatting.significant(value * 100)} %"


def quantity(value: float | None, unit: str | None) -> str:
    """Format a value in the unit of its series. An unknown unit is written after the number."""
    match unit:
        case "bytes" | "B":
            return size(value)
        case "s":
            return seconds(value)
        case "ms":
            return seconds(None if value is None else value / 1e3)
        case "share" | "ratio":
            return share(value)
        case None | "" | "count" | "1":
            return count(value)
        case _:
            return f"{count(value)} {unit}"


def percentile(ordered: "list[float]", share_below: float) -> float | None:
    """The nearest-rank percentile of sorted values, which is one of them; None without values."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share_below * len(ordered)) - 1)]
