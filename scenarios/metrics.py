"""The metrics of checks and aborts. `assertions.expression` has the same names; a test compares the two lists."""

import difflib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Unit(StrEnum):
    """The unit of a metric's value once it is normalised."""

    SECONDS = "s"
    SHARE = "share"
    PER_SECOND = "per_s"
    BYTES = "bytes"
    BYTES_PER_HOUR = "bytes_per_h"
    COUNT_PER_HOUR = "count_per_h"
    SHARE_PER_HOUR = "share_per_h"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    `stats` are the stats that may follow its name. `of_load` is True when a check can restrict it to a load or group.
    `live` is True when it is known during the run, so that an abort can use it.
    """

    name: str
    unit: Unit
    stats: tuple[str, ...]
    of_load: bool
    live: bool
    means: str


QUANTILES: Final = ("p50", "p90", "p95", "p99")
STATS: Final = (*QUANTILES, "max", "mean")


def _rows() -> tuple[Metric, ...]:
    time, share, rate = Unit.SECONDS, Unit.SHARE, Unit.PER_SECOND
    return (
        Metric("ttft", time, STATS, True, True, "from the intended send to the first token"),
        Metric("itl", time, STATS, True, True, "between two chunks of one reply"),
        Metric("e2e", time, STATS, True, True, "from the intended send to the end of the reply"),
        Metric("tpot", time, STATS, True, True, "(e2e - ttft) / (tokens - 1)"),
        Metric("errors", share, (), True, True, "requests that ended neither ok nor cancelled by us"),
        Metric("errors.outside", share, (), True, True, "the same outside fault windows"),
        Metric("refused", share, (), True, True, "requests answered with 429 or 503"),
        Metric("dropped", share, (), True, True, "arrivals that our own full pool never sent"),
        Metric("throughput.tokens", rate, (), True, True, "generated tokens"),
        Metric("throughput.requests", rate, (), True, True, "completed requests"),
        Metric("fallback_rate", share, (), False, False, "fallbacks (copy, cast, repeat, preemption) per engine step"),
        Metric("failed_allocations", share, (), False, False, "calls for KV blocks that were refused"),
        Metric("leak.rss_anon", Unit.BYTES_PER_HOUR, (), False, False, "growth of the server's anonymous memory"),
        Metric("leak.fds", Unit.COUNT_PER_HOUR, (), False, False, "growth of the server's open files"),
        Metric("leak.sockets", Unit.COUNT_PER_HOUR, (), False, False, "growth of the server's open sockets"),
        Metric("leak.file_cache", Unit.BYTES_PER_HOUR, (), False, False, "growth of the page cache of files it writes"),
        Metric("leak.threads", Unit.COUNT_PER_HOUR, (), False, False, "growth of the server's threads"),
        Metric("leak.kv_live", Unit.COUNT_PER_HOUR, (), False, False, "growth of KV blocks in use when idle"),
        Metric("leak.fragmentation", Unit.SHARE_PER_HOUR, (), False, False, "growth of the share of KV held unasked"),
        Metric("leak.swap_fragmentation", Unit.SHARE_PER_HOUR, (), False, False, "growth of free swap in pieces"),
        Metric("max.rss_anon", Unit.BYTES, (), False, False, "the most anonymous memory of the server, swap included"),
        Metric("max.fds", Unit.COUNT, (), False, False, "the most open files of the server"),
        Metric("max.sockets", Unit.COUNT, (), False, False, "the most open sockets of the server"),
        Metric("max.file_cache", Unit.BYTES, (), False, False, "the most page cache of files that the server writes"),
        Metric("max.threads", Unit.COUNT, (), False, False, "the most threads of the server"),
        Metric("max.fragmentation", share, (), False, False, "the largest share of KV bytes held and not asked for"),
        Metric("fresh_vs_aged.ttft", share, QUANTILES, True, False, "ttft of the aged target against a fresh one"),
        Metric("fresh_vs_aged.e2e", share, QUANTILES, True, False, "e2e of the aged target against a fresh one"),
        Metric("fresh_vs_aged.tpot", share, QUANTILES, True, False, "tpot of the aged target against a fresh one"),
        Metric("drift.ttft", share, STATS, True, False, "change of ttft from the start of the trial to its end"),
        Metric("drift.itl", share, STATS, True, False, "change of itl from the start of the trial to its end"),
        Metric("drift.e2e", share, STATS, True, False, "change of e2e from the start of the trial to its end"),
        Metric("drift.tpot", share, STATS, True, False, "change of tpot from the start of the trial to its end"),
        Metric("load.lateness", time, ("p99",), False, True, "how late the load generator sent"),
        Metric("recovery", time, (), True, False, "from the heal of a fault to service as before it"),
        Metric("host.disk_free", Unit.BYTES, (), False, True, "free space where the run is written"),
        Metric("host.hiccup", time, ("max",), False, True, "the longest time the machine did not let us run"),
    )


METRICS: Final[dict[str, Metric]] = {metric.name: metric for metric in _rows()}


def full_names() -> list[str]:
    """All metric names with their stats: `ttft.p99`, `errors`, ..."""
    return [name for m in METRICS.values() for name in ([f"{m.name}.{stat}" for stat in m.stats] or [m.name])]


def find(full_name: str) -> tuple[Metric, str | None] | None:
    """The metric and the stat of a full name such as `ttft.p99`; None when there is no such name."""
    if full_name in METRICS and not METRICS[full_name].stats:
        return METRICS[full_name], None
    name, _, stat = full_name.rpartition(".")
    metric = METRICS.get(name)
    return (metric, stat) if metric is not None and stat in metric.stats else None


def suggest(full_name: str) -> str:
    """A remedy for an unknown metric name."""
    if full_name in METRICS:
        return f"add a stat: {full_name}.{METRICS[full_name].stats[-3]}" if METRICS[full_name].stats else ""
    close = difflib.get_close_matches(full_name, full_names(), 1, 0.6)
    if close:
        return f'did you mean "{close[0]}"?'
    families = sorted({name.split(".")[0] for name in METRICS})
    return f"metrics are {', '.join(families)}"
