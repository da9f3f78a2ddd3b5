"""Parses checks (`metric[.stat] op value`) and aborts (`metric[.stat] op value for duration`).

    ttft.p99 < 800ms       errors.outside <= 1%       leak.rss_anon < 4MiB/h       throughput.tokens > 300/s
    errors.outside > 20% for 2m     max.fds < 200     host.disk_free < 2GiB for 10s

A check must hold; an abort ends the run. Parsed values have the metric's own unit (`Unit`).
"""

import re
from dataclasses import dataclass
from typing import Final

from scenarios import metrics
from scenarios.metrics import Unit
from scenarios.units import NUMBER, InvalidValue, parse_bytes, parse_seconds, parse_share

OPERATORS: Final = ("<=", ">=", "<", ">")
_FORM: Final = re.compile(r"^\s*(?P<name>[A-Za-z_][\w.]*)\s*(?P<op>[<>=!~]+)\s*(?P<value>.+?)\s*$")
_FOR: Final = re.compile(r"^(?P<condition>.*\S)\s+for\s+(?P<duration>\S.*?)\s*$")
_EXAMPLES: Final = {
    Unit.SECONDS: "800ms",
    Unit.SHARE: "1%",
    Unit.PER_SECOND: "300/s",
    Unit.BYTES: "2GiB",
    Unit.BYTES_PER_HOUR: "4MiB/h",
    Unit.COUNT_PER_HOUR: "1/h",
    Unit.SHARE_PER_HOUR: "2%/h",
    Unit.COUNT: "200",
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition. `value` is in `unit`; `stat` is None for a metric without stats."""

    metric: str
    stat: str | None
    op: str
    value: float
    unit: Unit

    def holds(self, observed: float) -> bool:
        match self.op:
            case "<":
                return observed < self.value
            case "<=":
                return observed <= self.value
            case ">":
                return observed > self.value
            case _:
                return observed >= self.value

    @property
    def name(self) -> str:
        return f"{self.metric}.{self.stat}" if self.stat else self.metric


@dataclass(frozen=True, slots=True)
class Abort:
    """The run ends when the condition `when` has held for `for_s` seconds without interruption."""

    when: Condition
    for_s: float


def parse_condition(text: str) -> Condition:
    """Parse the `that` of a check. Raises InvalidValue when it is not a condition."""
    form = _FORM.match(text)
    if form is None:
        raise InvalidValue("a check is: metric[.stat] op value", 'write it such as "ttft.p99 < 800ms"')
    found = metrics.find(form["name"])
    if found is None:
        raise InvalidValue(f'no metric "{form["name"]}"', metrics.suggest(form["name"]))
    if form["op"] not in OPERATORS:
        raise InvalidValue(f'no operator "{form["op"]}"', "use < <= > or >=")
    metric, stat = found
    return Condition(metric.name, stat, form["op"], _value(form["value"], metric.name, metric.unit), metric.unit)


def parse_abort(text: str) -> Abort:
    """Parse one `abort`. Raises InvalidValue when it is not a condition with a duration."""
    form = _FOR.match(text)
    if form is None:
        raise InvalidValue("an abort is: metric[.stat] op value for duration", f'write "{text.strip()} for 30s"')
    condition = parse_condition(form["condition"])
    if not metrics.METRICS[condition.metric].live:
        raise InvalidValue(f"{condition.metric} is only known after the run", "make it a check")
    return Abort(condition, parse_seconds(form["duration"]))


def _value(text: str, name: str, unit: Unit) -> float:
    try:
        match unit:
            case Unit.SECONDS:
                return parse_seconds(text)
            case Unit.BYTES:
                return float(parse_bytes(text))
            case Unit.SHARE if text.endswith("%") and name.startswith(("drift.", "fresh_vs_aged.")):
                return _per(text, "%") / 100  # a drift can exceed 100 %
            case Unit.SHARE:
                return parse_share(text if text.endswith("%") else _per(text, ""))
            case Unit.PER_SECOND:
                return _per(text, "/s")
            case Unit.BYTES_PER_HOUR if text.endswith("/h"):
                return float(parse_bytes(text.removesuffix("/h")))
            case Unit.SHARE_PER_HOUR:
                return _per(text, "%/h") / 100
            case Unit.COUNT_PER_HOUR:
                return _per(text, "/h")
            case Unit.COUNT:
                return _per(text, "")
    except InvalidValue as refused:
        remedy = f"write it such as {_EXAMPLES[unit]}" if unit is Unit.BYTES_PER_HOUR else refused.remedy
        raise InvalidValue(f"{name}: {refused.rule}", remedy or f"write it such as {_EXAMPLES[unit]}") from None
    except ValueError:
        pass
    raise InvalidValue(f'{name} cannot be compared with "{text}"', f"write it such as {_EXAMPLES[unit]}")


def _per(text: str, suffix: str) -> float:
    if re.match(rf"^{NUMBER}{suffix}$", text) is None:
        raise ValueError(text)
    return float(text.removesuffix(suffix))
