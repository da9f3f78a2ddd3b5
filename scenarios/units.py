"""Parses strings with a unit into numbers: seconds, bytes, rates per second, shares.

Each `parse_*` takes a TOML value, returns the number, and raises InvalidValue with rule and remedy.
"""

import math
import re
from typing import Final

SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
BYTES: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

NUMBER: Final = r"(?:\d+(?:\.\d+)?)"
DURATION: Final = rf"{NUMBER}(ms|s|m|h)"
DURATION_PATTERN: Final = rf"^{DURATION}$"
SIZE_PATTERN: Final = rf"^{NUMBER}(KiB|MiB|GiB)$"
RATE_PATTERN: Final = rf"^{NUMBER}/s$"
RATES_PATTERN: Final = rf"^{NUMBER}/s(\.\.{NUMBER}/s)?$"
SHARE_PATTERN: Final = rf"^{NUMBER}%$"

# Other spellings of units; they are only used in the remedy.
_OTHER_TIMES: Final = {
    **dict.fromkeys(("msec", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
}
_OTHER_SIZES: Final = {"k": "KiB", "kb": "KiB", "kib": "KiB", "m": "MiB", "mb": "MiB", "mib": "MiB"} | {
    "g": "GiB",
    "gb": "GiB",
    "gib": "GiB",
}
_PARTS: Final = re.compile(rf"^\s*(-?{NUMBER})\s*(.*?)\s*$")


class InvalidValue(ValueError):
    """The schema does not allow a value. `rule` says what is allowed, `remedy` what to write instead."""

    def __init__(self, rule: str, remedy: str = "") -> None:
        super().__init__(f"{rule}; {remedy}" if remedy else rule)
        self.rule = rule
        self.remedy = remedy


def parse_seconds(value: object) -> float:
    """Parse a time such as "250ms", "15s", "1.5m" or "8h" into seconds."""
    if isinstance(value, str) and re.match(DURATION_PATTERN, value):
        number, unit = _split(value)
        return _finite(number * SECONDS[unit])
    raise InvalidValue("a time is a number and its unit: ms, s, m or h", _remedy(value, _OTHER_TIMES, "s", SECONDS))


def parse_bytes(value: object) -> int:
    """Parse a size such as "64KiB" or "4GiB" into bytes."""
    if isinstance(value, str) and re.match(SIZE_PATTERN, value):
        number, unit = _split(value)
        return round(_finite(number * BYTES[unit]))
    raise InvalidValue("a size is a number and its unit: KiB, MiB or GiB", _remedy(value, _OTHER_SIZES, "MiB", BYTES))


def parse_rate(value: object) -> float:
    """Parse a rate such as "6/s" into a number per second, above 0."""
    if isinstance(value, str) and re.match(RATE_PATTERN, value):
        rate = _finite(float(value.removesuffix("/s")))
        if rate > 0:
            return rate
        raise InvalidValue("a rate is above 0", 'write "0.1/s", or leave the load out')
    raise InvalidValue('a rate is per second, such as "6/s"', _rate_remedy(value))


def parse_rates(value: object) -> float | tuple[float, float]:
    """Parse "6/s" into one rate, or "1/s..6/s" into (low, high) with 0 <= low < high."""
    if not isinstance(value, str) or ".." not in value:
        return parse_rate(value)
    if not re.match(RATES_PATTERN, value):
        raise InvalidValue('a range of rates is "low/s..high/s"', 'write it such as "1/s..6/s"')
    low, high = (_finite(float(part.removesuffix("/s"))) for part in value.split(".."))
    if low >= high:
        raise InvalidValue("the first rate of a range is the lower one", f'write "{high:g}/s..{low:g}/s"')
    return low, high


def parse_share(value: object) -> float:
    """Parse 0.05 or "5%" into a share from 0 to 1."""
    if isinstance(value, str) and re.match(SHARE_PATTERN, value):
        share = float(value.removesuffix("%")) / 100
    elif isinstance(value, int | float) and not isinstance(value, bool):
        share = float(value)
    else:
        raise InvalidValue('a share is a number from 0 to 1 or a percentage such as "5%"')
    if not 0 <= share <= 1:
        hint = f'for {share:g} % write "{share:g}%"' if 1 < share <= 100 and not isinstance(value, str) else ""
        raise InvalidValue("a share lies from 0 to 1 (0% to 100%)", hint)
    return share


def show_seconds(value_s: float) -> str:
    """Format a time for a scenario: 0.25 -> "250ms", 90 -> "90s", 7200 -> "2h"."""
    if 0 < value_s < 1:
        return f"{_digits(value_s * 1000)}ms"
    for unit in ("h", "m"):
        if value_s >= 2 * SECONDS[unit] and value_s % SECONDS[unit] == 0:
            return f"{_digits(value_s / SECONDS[unit])}{unit}"
    return f"{_digits(value_s)}s"


def show_bytes(value_bytes: int) -> str:
    """Format a size for a scenario: 4294967296 -> "4GiB", 0 -> "0KiB"."""
    for unit in ("GiB", "MiB"):
        if value_bytes >= BYTES[unit] and value_bytes % BYTES[unit] == 0:
            return f"{value_bytes // BYTES[unit]}{unit}"
    return f"{_digits(value_bytes / BYTES['KiB'])}KiB"


def _digits(number: float) -> str:
    """Format a number without an exponent, which the grammar lacks, and without trailing zeros."""
    return f"{number:.6f}".rstrip("0").rstrip(".")


def _split(text: str) -> tuple[float, str]:
    match = _PARTS.match(text)
    assert match is not None
    return float(match[1]), match[2]


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise InvalidValue("the number is too large")
    return value


def _remedy(value: object, others: dict[str, str], bare_unit: str, units: dict[str, float] | dict[str, int]) -> str:
    """A remedy that writes the given amount correctly, or an example when the amount is unreadable."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return f'write a string such as "10{bare_unit}"'
    match = _PARTS.match(str(value))
    if match is None:
        return f'write a string such as "10{bare_unit}"'
    number, word = match[1], match[2]
    if number.startswith("-"):
        return "it cannot be negative"
    if word in ("d", "day", "days") and "h" in units:
        return f'write "{float(number) * 24:g}h"'
    unit = bare_unit if word == "" else others.get(word.lower(), word if word in units else bare_unit)
    return f'write "{number}{unit}"'


def _rate_remedy(value: object) -> str:
    match = re.match(rf"^\s*({NUMBER})\s*(?:/|per)?\s*(\w*)\s*$", str(value))
    if match is None or isinstance(value, bool):
        return 'write it such as "6/s"'
    period = {"m": "m", "min": "m", "minute": "m", "h": "h", "hour": "h"}.get(match[2].lower(), "s")
    return f'write "{float(match[1]) / SECONDS[period]:.4g}/s"'
