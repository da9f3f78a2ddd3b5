"""The series of KV and the prefix cache, in one table for live and virtual runs.

A live run reads a series from /metrics by `sample` and `labels`; a virtual run reads it from the memory figures by
`figure`. The wall time of an allocation exists only in live runs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from runtime.memory.spans.usage import MemoryFigures, figures_of

Rows = dict[str, tuple[float, str, str]]
"""Series name -> (value, unit, kind)."""


@dataclass(frozen=True, slots=True)
class MemorySeries:
    """One series, or one for each tenant or pool, whose name is then `name` with that in brackets."""

    name: str
    unit: str
    kind: str
    figure: str
    sample: str
    labels: Mapping[str, str] = field(default_factory=dict)


def _kv() -> Iterator[MemorySeries]:
    pool = {"pool": "kv"}
    yield MemorySeries("kv.held_bytes", "bytes", "gauge", "held_bytes", "seatrial_pool_bytes", pool | {"state": "held"})
    yield MemorySeries("kv.free_bytes", "bytes", "gauge", "free_bytes", "seatrial_pool_bytes", pool | {"state": "free"})
    for figure, unit in (
        ("asked_bytes", "bytes"),
        ("largest_free_bytes", "bytes"),
        ("peak_bytes", "bytes"),
        ("internal_fragmentation", "share"),
        ("hit_rate", "share"),
        ("failure_rate", "share"),
        ("failed_per_hour", "count_per_h"),
        ("leaks", "blocks"),
        ("latency_ns_p99", "ns"),
    ):
        yield MemorySeries(f"kv.{figure}", unit, "gauge", figure, f"seatrial_pool_{figure}", pool)
    for figure in ("allocs", "failed"):
        yield MemorySeries(f"kv.{figure}", "count", "counter", figure, f"seatrial_pool_{figure}_total", pool)
    for rung in ("evict", "preempt", "reject"):
        labels = pool | {"rung": rung}
        yield MemorySeries(f"kv.rung.{rung}", "count", "counter", rung, "seatrial_pool_rung_total", labels)


def _prefix() -> Iterator[MemorySeries]:
    for figure, unit in (("hit_rate", "share"), ("published_bytes", "bytes"), ("peak_bytes", "bytes")):
        yield MemorySeries(f"prefix.{figure}", unit, "gauge", figure, f"seatrial_prefix_{figure}")
    for figure in ("published", "refused", "evicted"):
        yield MemorySeries(f"prefix.{figure}", "blocks", "counter", figure, f"seatrial_prefix_{figure}_total")
    for figure in ("queries", "hits"):
        yield MemorySeries(f"prefix.{figure}", "tokens", "counter", figure, f"vllm:prefix_cache_{figure}_total")


def _tenant() -> Iterator[MemorySeries]:
    for figure in ("asked_bytes", "held_bytes", "peak_bytes"):
        yield MemorySeries(f"kv.tenant.{figure}", "bytes", "gauge", figure, f"seatrial_kv_tenant_{figure}")
    for figure, unit in (
        ("allocs", "count"),
        ("failed", "count"),
        ("prefix_queries", "tokens"),
        ("prefix_hits", "tokens"),
    ):
        yield MemorySeries(f"kv.tenant.{figure}", unit, "counter", figure, f"seatrial_kv_tenant_{figure}_total")


def _pool() -> Iterator[MemorySeries]:
    """The series of the pools that hand out spans."""
    yield MemorySeries("pool.fragmentation", "share", "gauge", "fragmentation", "seatrial_pool_fragmentation")
    for figure in ("failed", "fragmentation_failures"):
        yield MemorySeries(f"pool.{figure}", "count", "counter", figure, f"seatrial_pool_{figure}_total")


KV, PREFIX, TENANT, POOL = tuple(_kv()), tuple(_prefix()), tuple(_tenant()), tuple(_pool())


def of_tenant(name: str, tenant: str) -> str:
    """The name of the series of one tenant or one pool."""
    return f"{name}[{tenant}]"


def memory_rows(figures: MemoryFigures) -> Rows:
    """One sample of each series that these figures have."""
    rows: Rows = {}
    for usage in figures.pools:
        if usage.pool == "kv":
            _add(rows, KV, figures_of(usage) | dict(usage.rungs or {}))
        else:
            _add(rows, POOL, figures_of(usage), usage.pool)
    if figures.prefix is not None:
        _add(rows, PREFIX, figures_of(figures.prefix))
    for one in figures.tenants:
        _add(rows, TENANT, figures_of(one), one.tenant)
    return rows


def _add(rows: Rows, table: tuple[MemorySeries, ...], values: Mapping[str, object], tenant: str | None = None) -> None:
    for one in table:
        value = values.get(one.figure)
        if isinstance(value, int | float):
            rows[one.name if tenant is None else of_tenant(one.name, tenant)] = (value, one.unit, one.kind)
