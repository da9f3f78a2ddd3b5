"""Formats numbers of reports, so that a figure has the same text in every output.

Texts and units are those of the judges (`assertions.formatting`), with MISSING for a missing value.
"""

import math
from collections.abc import Callable

from assertions import formatting

MISSING = "–"
COMMIT_DIGITS = 12
S_PER_NS = 1e-9
"""Seconds in a nanosecond: the history counts in nanoseconds, a report in seconds."""


def at(value_s: float | None) -> str:
    """Format a time of the run since its start: `00:02:14.500`."""
    return at_ns(None if value_s is None else value_s / S_PER_NS)


def _or_missing(text_of: Callable[[float], str]) -> Callable[[float | None], str]:
    return lambda value: MISSING if value is None or math.isnan(value) else text_of(value)


seconds = _or_missing(formatting.seconds)
"""Formats a duration: `41.2 ms`, `3.05 s`, `80 min`."""
size = _or_missing(formatting.size)
"""Formats a number of bytes: `212 MiB`."""
at_ns = _or_missing(lambda t_ns: formatting.since_start(round(t_ns)))
"""Formats a time of the run in ns since its start: `00:02:14.500`."""
count = _or_missing(lambda value: f"{value:,.0f}" if float(value).is_integer() else formatting.significant(value))
"""Formats a count: `12,043`."""
share = _or_missing(lambda value: f"{formatting.significant(value * 100)} %")
"""Formats a share of 1 as a percentage: `4.31 %`. A share above 0 is never shown as `0 %`."""


def commit(full: str | None, *, dirty: bool = False) -> str:
    """Format a commit: its first digits, and "(dirty)" when the working tree had changes."""
    return full[:COMMIT_DIGITS] + (" (dirty)" if dirty else "") if full else "not recorded"


def quantity(value: float | None, unit: str | None) -> str:
    """Format a value in the unit of its series. An unknown unit is written after the number."""
    match unit:
        case "bytes" | "B":
            return size(value)
        case "bytes/h" if value is not None:
            return f"{size(value)}/h"
        case "s":
            return seconds(value)
        case "ms":
            return seconds(None if value is None else value / 1e3)
        case "share" | "ratio":
            return share(value)
        case None | "" | "count" | "1" | "bytes/h":
            return count(value)
        case _:
            return f"{count(value)} {unit}"


def percentile(ordered: list[float], share_below: float) -> float | None:
    """The nearest-rank percentile of sorted values, which is one of them; None without values."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share_below * len(ordered)) - 1)]
