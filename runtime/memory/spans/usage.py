"""Figures of pools: bytes now, counts since the start, and ratios of them.

A figure that has no meaning for a pool is None. It is left out of JSON, of /metrics and of the history.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field

HOUR_NS = 3_600_000_000_000
LATENCIES_KEPT = 4096
"""Latencies of the last allocations that a pool keeps."""
REJECT = "reject"
"""The name under which a ladder counts the allocations that no rung saved."""


class _Served:
    """Ratios of `failed` requests and `allocs` that were served."""

    __slots__ = ()
    allocs: int
    failed: int | None

    @property
    def failure_rate(self) -> float | None:
        """Failed share of all requests; None without `failed`."""
        return None if self.failed is None else _share(self.failed, self.failed + self.allocs)


class _Held:
    """Ratios of `asked_bytes` and `held_bytes`."""

    __slots__ = ()
    asked_bytes: int
    held_bytes: int

    @property
    def internal_fragmentation(self) -> float:
        """Share of the held bytes that were not asked for; 0 when nothing is held."""
        return 1 - self.asked_bytes / self.held_bytes if self.held_bytes else 0.0


@dataclass(frozen=True, slots=True)
class Usage(_Held, _Served):
    """One pool at one moment. `total == held + limbo + free + pinned`, all in bytes.

    A span pool fills the fields above the line. The adaptor in the comment of a field below it fills that one; without
    the adaptor it is None. The KV pool fills all that it has (runtime/memory/kv/figures.py).
    """

    pool: str
    total_bytes: int
    asked_bytes: int
    """Bytes that were asked for live spans. KV: slots of live blocks with a known token."""
    held_bytes: int
    """Bytes of live spans with rounding. KV: bytes of live blocks; a shared block counts once."""
    limbo_bytes: int
    """Bytes of ended spans that wait for the last launch that touches them."""
    free_bytes: int
    """KV: with cached blocks, which are evicted when blocks are needed."""
    largest_free_bytes: int
    """Bytes of the largest free piece. KV: all free bytes, since a block table reaches blocks in any order."""
    pinned_bytes: int | None
    """Bytes that can't be handed out before a neighbour is put back. KV: None, since blocks don't depend on
    neighbours."""
    live: int
    """Live spans, or live blocks."""
    allocs: int
    """Allocations that were served. KV: calls for one or more blocks."""
    hits: int
    """Served allocations without a refill and without a new segment. KV: without an eviction."""
    # ---
    failed: int | None = None  # Stats: allocations that were refused
    fragmentation_failures: int | None = None  # Stats: refused, though enough bytes were free in pieces. KV: None
    peak_bytes: int | None = None  # Stats: the most bytes that were held and in limbo at once
    latency_ns_p99: int | None = None  # Stats: wall time of the last LATENCIES_KEPT allocations; None in virtual time
    age_ns: int | None = None  # Stats: since the pool was made
    rungs: Mapping[str, int] | None = None  # Retry: allocations that each rung of the ladder saved, and REJECT
    leaks: int | None = None  # engine: spans or blocks whose owner has ended; None where spans have no owner

    @property
    def fragmentation(self) -> float | None:
        """External fragmentation: 1 - largest free piece / free bytes; 0 when nothing is free. None for blocks."""
        if self.pinned_bytes is None:
            return None
        return 1 - self.largest_free_bytes / self.free_bytes if self.free_bytes else 0.0

    @property
    def hit_rate(self) -> float:
        """Hits as a share of the served allocations; 1 without any."""
        return self.hits / self.allocs if self.allocs else 1.0

    @property
    def failed_per_hour(self) -> float | None:
        """Refused allocations per hour of the pool's age."""
        if self.failed is None or self.age_ns is None:
            return None
        return self.failed * HOUR_NS / self.age_ns if self.age_ns else 0.0

    @property
    def fallbacks(self) -> int | None:
        """Allocations that a rung of the ladder saved."""
        return None if self.rungs is None else sum(n for rung, n in self.rungs.items() if rung != REJECT)

    @property
    def conserved(self) -> bool:
        """True when the terms add up to `total_bytes`."""
        terms = self.held_bytes + self.limbo_bytes + self.free_bytes + (self.pinned_bytes or 0)
        return terms == self.total_bytes


@dataclass(frozen=True, slots=True)
class PrefixUsage:
    """The prefix cache: blocks of the KV pool that other requests can find. It has no bytes of its own."""

    published_bytes: int
    """Bytes of blocks in the index, held or cached."""
    cached_bytes: int
    """Bytes of blocks in the index that no request holds. They are evicted when blocks are needed."""
    peak_bytes: int
    """The most bytes that were in the index at once."""
    published: int
    """Blocks that entered the index."""
    refused: int
    """Blocks that did not enter it, since another block has the same content."""
    evicted: int
    """Blocks that were evicted from it."""
    queries: int
    """Tokens that were looked up at admission."""
    hits: int
    """Looked-up tokens that were found."""

    @property
    def hit_rate(self) -> float:
        """Found share of the looked-up tokens."""
        return _share(self.hits, self.queries)


@dataclass(frozen=True, slots=True)
class TenantUsage(_Held, _Served):
    """One tenant's part of the KV pool, of the prefix cache and of the host. Tenants never share a block."""

    tenant: str
    requests: int
    """Requests that hold blocks or have KV on the host."""
    asked_bytes: int
    held_bytes: int
    host_bytes: int
    """KV on the host, of preempted requests."""
    peak_bytes: int
    """The most bytes that were held at once, without limbo."""
    allocs: int
    hits: int
    failed: int
    prefix_queries: int
    prefix_hits: int

    @property
    def prefix_hit_rate(self) -> float:
        """Found share of the looked-up tokens."""
        return _share(self.prefix_hits, self.prefix_queries)


@dataclass(frozen=True, slots=True)
class RequestUsage(_Held):
    """One request that holds KV blocks or has KV on the host."""

    request: str
    tenant: str
    phase: str
    asked_bytes: int
    held_bytes: int
    """A shared block counts for each of its holders."""
    host_bytes: int
    failed: int
    """Calls for blocks that the pool refused."""
    preempted: int
    prefix_hits: int
    """Prompt tokens that were found in the prefix cache."""


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """All pools of a runtime at one moment. It is never changed, so any thread may read it."""

    pools: tuple[Usage, ...] = ()
    prefix: PrefixUsage | None = None
    """None without a prefix cache."""
    tenants: tuple[TenantUsage, ...] = ()
    requests: tuple[RequestUsage, ...] = ()
    unowned_bytes: Mapping[str, int] = field(default_factory=dict)
    """Phase -> the most bytes that one launch allocated outside of every pool."""
    free_bytes: int | None = None
    """Free bytes that the device reports; None when it reports none."""
    conversions: Mapping[str, int] = field(default_factory=dict)
    """Phase -> the most layout conversions in one launch."""


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def p99(values: Iterable[int]) -> int:
    """Return the 99th percentile by nearest rank."""
    ordered = sorted(values)
    return ordered[math.ceil(0.99 * len(ordered)) - 1]


def figures_of(one: Usage | PrefixUsage | TenantUsage | RequestUsage) -> dict[str, object]:
    """Return fields and ratios by name, without those that are None."""
    properties = [name for kind in type(one).mro() for name, value in vars(kind).items() if isinstance(value, property)]
    figures = asdict(one) | {name: getattr(one, name) for name in properties}
    return {name: value for name, value in figures.items() if value is not None and name != "conserved"}


def print_stats(usages: Iterable[Usage]) -> str:
    """Return a table with one row for each pool: bytes in MiB, and "-" for a figure that is None."""
    rows = [["pool", *_COLUMNS], *([usage.pool, *_cells(usage)] for usage in usages)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _cells(usage: Usage) -> Iterator[str]:
    for name, factor, digits in _COLUMNS.values():
        value = getattr(usage, name)
        yield "-" if value is None else f"{value * factor:.{digits}f}"


_COLUMNS = {
    "total": ("total_bytes", 2**-20, 2),
    "asked": ("asked_bytes", 2**-20, 2),
    "held": ("held_bytes", 2**-20, 2),
    "limbo": ("limbo_bytes", 2**-20, 2),
    "free": ("free_bytes", 2**-20, 2),
    "largest": ("largest_free_bytes", 2**-20, 2),
    "frag%": ("fragmentation", 100, 1),
    "inner%": ("internal_fragmentation", 100, 1),
    "live": ("live", 1, 0),
    "allocs": ("allocs", 1, 0),
    "hit%": ("hit_rate", 100, 1),
    "peak": ("peak_bytes", 2**-20, 2),
    "failed": ("failed", 1, 0),
    "frag_failed": ("fragmentation_failures", 1, 0),
    "saved": ("fallbacks", 1, 0),
    "leaks": ("leaks", 1, 0),
    "p99_us": ("latency_ns_p99", 1e-3, 1),
    "oom/h": ("failed_per_hour", 1, 1),
}
"""Heading -> (figure of Usage, factor, digits)."""
