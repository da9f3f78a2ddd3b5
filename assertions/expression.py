"""Checks of the form `metric[.stat] op value` are parsed again here, for the judges.

    ttft.p99 < 800ms      errors.outside <= 1%      leak.rss_anon < 4MiB/h      throughput.tokens > 300/s

`scenarios.expr` has the same table and gives more helpful messages. The table is repeated here because an old run must
be judged without the code that planned it; a test compares the two tables.
"""

import re
from dataclasses import dataclass

QUANTILES = ("p50", "p90", "p95", "p99")
STATS = ("p50", "p90", "p95", "p99", "max", "mean")

# metric -> (dimension, the stats that may follow)
METRICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ttft": ("time", STATS),
    "itl": ("time", STATS),
    "e2e": ("time", STATS),
    "tpot": ("time", STATS),
    "errors": ("share", ()),
    "errors.outside": ("share", ()),
    "refused": ("share", ()),
    "dropped": ("share", ()),
    "throughput.tokens": ("per_second", ()),
    "throughput.requests": ("per_second", ()),
    "fallback_rate": ("share", ()),
    "failed_allocations": ("share", ()),
    "leak.rss_anon": ("bytes_per_hour", ()),
    "leak.fds": ("count_per_hour", ()),
    "leak.sockets": ("count_per_hour", ()),
    "leak.threads": ("count_per_hour", ()),
    "leak.file_cache": ("bytes_per_hour", ()),
    "leak.kv_live": ("count_per_hour", ()),
    "leak.fragmentation": ("share_per_hour", ()),
    "leak.swap_fragmentation": ("share_per_hour", ()),
    "max.rss_anon": ("bytes", ()),
    "max.fds": ("count", ()),
    "max.sockets": ("count", ()),
    "max.threads": ("count", ()),
    "max.file_cache": ("bytes", ()),
    "max.fragmentation": ("share", ()),
    "fresh_vs_aged.ttft": ("share", QUANTILES),
    "fresh_vs_aged.e2e": ("share", QUANTILES),
    "fresh_vs_aged.tpot": ("share", QUANTILES),
    "drift.ttft": ("share", STATS),
    "drift.itl": ("share", STATS),
    "drift.e2e": ("share", STATS),
    "drift.tpot": ("share", STATS),
    "load.lateness": ("time", ("p99",)),
    "recovery": ("time", ()),
    "host.disk_free": ("bytes", ()),
    "host.hiccup": ("time", ("max",)),
}

_FORM = re.compile(r"^\s*(?P<name>[A-Za-z_][\w.]*)\s*(?P<op><=|>=|<|>)\s*(?P<value>\S.*?)\s*$")
_NUMBER = r"(\d+(?:\.\d+)?)"
_UNITS: dict[str, dict[str, float]] = {
    "time": {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0},
    "share": {"%": 0.01, "": 1.0},
    "per_second": {"/s": 1.0},
    "bytes": {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30},
    "bytes_per_hour": {"KiB/h": 2.0**10, "MiB/h": 2.0**20, "GiB/h": 2.0**30},
    "count_per_hour": {"/h": 1.0},
    "share_per_hour": {"%/h": 0.01},
    "count": {"": 1.0},
}


@dataclass(frozen=True)
class Expression:
    """A parsed check.

    `dimension` says the unit of `value`: seconds, bytes, a share, a count, or one of them per time.
    """

    text: str
    metric: str
    stat: str | None
    op: str
    value: float
    dimension: str

    @property
    def family(self) -> str:
        return self.metric.split(".")[0]

    @property
    def quantile(self) -> float | None:
        """The quantile of the stat: 0.99 for p99, None for max, mean and metrics without a stat."""
        return int(self.stat[1:]) / 100 if self.stat and self.stat[0] == "p" else None

    @property
    def upward(self) -> bool:
        """True when a larger value is worse."""
        return self.op in ("<", "<=")

    def holds(self, observed: float) -> bool:
        return {
            "<": observed < self.value,
            "<=": observed <= self.value,
            ">": observed > self.value,
            ">=": observed >= self.value,
        }[self.op]


def parse(text: str) -> Expression:
    """Parse a check. Raises ValueError that says what was given, what is allowed and what to write."""
    form = _FORM.match(text)
    if form is None:
        raise ValueError(f'check "{text}" is not "metric[.stat] op value"; write it such as "ttft.p99 < 800ms"')
    metric, stat = _split(form["name"])
    if metric is None:
        raise ValueError(f'check "{text}": no metric "{form["name"]}"; metrics are {", ".join(METRICS)}')
    dimension = METRICS[metric][0]
    match = re.fullmatch(_NUMBER + r"\s*(\S*)", form["value"])
    units = _UNITS[dimension]
    if match is None or match[2] not in units:
        allowed = ", ".join(unit or "a bare share" for unit in units)
        raise ValueError(f'check "{text}": {metric} cannot be compared with "{form["value"]}"; units are {allowed}')
    return Expression(text, metric, stat, form["op"], float(match[1]) * units[match[2]], dimension)


def _split(name: str) -> tuple[str | None, str | None]:
    if name in METRICS and not METRICS[name][1]:
        return name, None
    metric, _, stat = name.rpartition(".")
    return (metric, stat) if metric in METRICS and stat in METRICS[metric][1] else (None, None)
