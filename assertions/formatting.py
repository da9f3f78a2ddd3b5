"""Formats numbers with units. Every text of a verdict uses it, so units look alike everywhere."""

import math

_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def seconds(value_s: float) -> str:
    """Format a duration: 0.0123 -> '12.3 ms', 75 -> '75 s', 4000 -> '66.7 min'."""
    size = abs(value_s)
    if not math.isfinite(value_s):
        return "never"
    if size < 1.0:
        return f"{value_s * 1e3:.3g} ms"
    if size < 600.0:
        return f"{value_s:.3g} s"
    return f"{value_s / 60:.3g} min" if size < 7200.0 else f"{value_s / 3600:.3g} h"


def duration(value_s: float) -> str:
    """Format a duration for a scenario, rounded up to whole seconds: 300 -> '5m', 90 -> '90s', 7200 -> '2h'."""
    whole = math.ceil(value_s)
    for unit_s, unit in ((3600, "h"), (60, "m")):
        if whole >= unit_s and whole % unit_s == 0:
            return f"{whole // unit_s}{unit}"
    return f"{whole}s"


def since_start(t_ns: int | float) -> str:
    """Format a time of the run (ns since its start): '00:12:03.250'."""
    total_ms = int(t_ns) // 1_000_000
    hours, rest = divmod(total_ms, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02d}:{minutes:02d}:{rest // 1000:02d}.{rest % 1000:03d}"


def amount(value: float, dimension: str) -> str:
    """Format the value of a check metric in its own unit; see `assertions.expression` for dimensions."""
    match dimension:
        case "time":
            return seconds(value)
        case "share":
            return f"{value * 100:.3g} %"
        case "share_per_hour":
            return f"{value * 100:.3g} %/h"
        case "per_second":
            return f"{value:.4g}/s"
        case "bytes":
            return size(value)
        case "bytes_per_hour":
            return f"{size(value)}/h"
        case "count_per_hour":
            return f"{value:,.0f}/h" if abs(value) >= 1000 else f"{value:.3g}/h"
    return f"{value:.4g}"


def size(value_bytes: float) -> str:
    """Format a number of bytes: '212 MiB'."""
    for unit_bytes, unit in _BYTES:
        if abs(value_bytes) >= unit_bytes:
            return f"{significant(value_bytes / unit_bytes)} {unit}"
    return f"{significant(value_bytes)} B"


def significant(value: float) -> str:
    """Format a number with three significant digits and without an exponent: '0.0431', '12,043'."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    if abs(rounded) >= 1000:
        return f"{rounded:,.0f}"
    text = f"{rounded:.{max(0, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def between(low: float, high: float, dimension: str) -> str:
    return f"{amount(low, dimension)} .. {amount(high, dimension)}"


def some(names: list[str], shown: int = 5) -> str:
    """Format a list of bounded length: 'a, b, c and 40 more'."""
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")
