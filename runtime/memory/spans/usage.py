"""Figures of pools: bytes now, counts since the start, and the ratios that follow from them.

A figure that has no meaning for a pool is None, and is left out of JSON, of /metrics and of the history.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

HOUR_NS = 3_600_000_000_000
REJECT = "reject"
"""The rung of the ladder below the last one: nothing saved the allocation."""


@dataclass(frozen=True, slots=True)
class Usage:
    """One pool at one moment. `total == held + limbo + free + pinned`, all in bytes.

    A span pool fills what is above the line; what is below it is filled by the adaptor that its comment names, and is
    None without that adaptor. The KV pool fills all that it has (runtime/memory/kv/figures.py).
    """

    pool: str
    total_bytes: int
    asked_bytes: int
    """Of live spans, as asked. KV: slots of live blocks that hold a known token."""
    held_bytes: int
    """Of live spans, with what rounding adds. KV: live blocks; a shared one counts once."""
    limbo_bytes: int
    """Ended, and waiting for the launch that touches them."""
    free_bytes: int
    """KV: cached blocks are among them, since they are evicted when room is needed."""
    largest_free_bytes: int
    """KV: all that is free, since a table reaches blocks in any order."""
    pinned_bytes: int | None
    """KV: None. A block is never held back by its neighbours."""
    live: int
    """Spans, or blocks."""
    allocs: int
    """Allocations that were served. KV: calls for one or more blocks."""
    hits: int
    """Allocations that needed neither a refill nor a new segment. KV: that needed no eviction."""
    # ---
    failed: int | None = None  # Stats: allocations that were refused
    fragmentation_failures: int | None = None  # Stats: failed though enough was free, in pieces. KV: None
    peak_bytes: int | None = None  # Stats: the most that was held and in limbo at once
    latency_ns_p99: int | None = None  # Stats: wall time of one allocation, the last 4,096; None in virtual time
    age_ns: int | None = None  # Stats: since it was made
    rungs: Mapping[str, int] | None = None  # Retry: allocations that each rung of the ladder saved; "reject": none did
    leaks: int | None = None  # the engine: spans or blocks whose owner has ended; None where spans have no owner

    @property
    def fragmentation(self) -> float | None:
        """External: 1 - largest free piece / free bytes, and 0 when nothing is free. None for pages."""
        if self.pinned_bytes is None:
            return None
        return 1 - self.largest_free_bytes / self.free_bytes if self.free_bytes else 0.0

    @property
    def internal_fragmentation(self) -> float:
        """The share of what is held that was not asked for; 0 when nothing is held."""
        return 1 - self.asked_bytes / self.held_bytes if self.held_bytes else 0.0

    @property
    def hit_rate(self) -> float:
        """Of all allocations; 1 when there were none."""
        return self.hits / self.allocs if self.allocs else 1.0

    @property
    def failure_rate(self) -> float | None:
        """Failed of all that were asked."""
        return None if self.failed is None else share_of(self.failed, self.failed + self.allocs)

    @property
    def failed_per_hour(self) -> float | None:
        """Out-of-memory per hour of the pool's life."""
        if self.failed is None or self.age_ns is None:
            return None
        return self.failed * HOUR_NS / self.age_ns if self.age_ns else 0.0

    @property
    def fallbacks(self) -> int | None:
        """Allocations that some rung of the ladder saved."""
        return None if self.rungs is None else sum(n for rung, n in self.rungs.items() if rung != REJECT)

    @property
    def conserved(self) -> bool:
        """Whether the terms add up."""
        terms = self.held_bytes + self.limbo_bytes + self.free_bytes + (self.pinned_bytes or 0)
        return terms == self.total_bytes


@dataclass(frozen=True, slots=True)
class PrefixUsage:
    """The prefix cache: blocks of the KV pool that others can find. It has no bytes of its own."""

    published_bytes: int
    """In the index: held by requests, or cached."""
    cached_bytes: int
    """Of these, held by nobody. They are evicted when room is needed."""
    peak_bytes: int
    """The most that was published at once."""
    published: int
    """Blocks that entered the index."""
    refused: int
    """Blocks that did not, since another one held the same."""
    evicted: int
    """Blocks that left it for want of room."""
    queries: int
    """Tokens that were looked for at admission, and of these the ones found."""
    hits: int

    @property
    def hit_rate(self) -> float:
        """Tokens found of those looked for."""
        return share_of(self.hits, self.queries)


@dataclass(frozen=True, slots=True)
class TenantUsage:
    """One tenant's part of the KV pool, of the prefix cache and of the host. Tenants never share a block."""

    tenant: str
    requests: int
    """That hold blocks or lie on the host."""
    asked_bytes: int
    held_bytes: int
    host_bytes: int
    """KV on the host, of those that were preempted."""
    peak_bytes: int
    """The most that was held at once; limbo is not in it."""
    allocs: int
    hits: int
    failed: int
    prefix_queries: int
    prefix_hits: int

    @property
    def internal_fragmentation(self) -> float:
        """The share of what is held that was not asked for."""
        return 1 - self.asked_bytes / self.held_bytes if self.held_bytes else 0.0

    @property
    def prefix_hit_rate(self) -> float:
        """Tokens found of those looked for."""
        return share_of(self.prefix_hits, self.prefix_queries)

    @property
    def failure_rate(self) -> float:
        """Failed of all that were asked."""
        return share_of(self.failed, self.failed + self.allocs)


@dataclass(frozen=True, slots=True)
class RequestUsage:
    """One request that holds KV blocks or lies on the host. A session of the seeds is one request."""

    request: str
    tenant: str
    phase: str
    asked_bytes: int
    held_bytes: int
    """A block that it shares counts here too."""
    host_bytes: int
    failed: int
    """Its wishes for blocks that the pool refused."""
    preempted: int
    prefix_hits: int
    """Tokens of its prompt that it did not have to compute."""

    @property
    def internal_fragmentation(self) -> float:
        """The share of what is held that was not asked for."""
        return 1 - self.asked_bytes / self.held_bytes if self.held_bytes else 0.0


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """All pools of a runtime at one moment; replaced whole and never changed, so any thread may read it."""

    pools: tuple[Usage, ...] = ()
    prefix: PrefixUsage | None = None
    """None without a prefix cache."""
    tenants: tuple[TenantUsage, ...] = ()
    requests: tuple[RequestUsage, ...] = ()
    unowned_bytes: Mapping[str, int] = field(default_factory=dict)
    """By phase: the most that a launch made the device allocate outside of every pool."""
    free_bytes: int | None = None
    """What the device says that it has left; None: it can't say."""
    conversions: Mapping[str, int] = field(default_factory=dict)
    """The most layout conversions in a launch, by phase."""


def share_of(part: int, whole: int) -> float:
    """`part / whole`, and 0 of nothing."""
    return part / whole if whole else 0.0


def p99(values: Iterable[int]) -> int:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[math.ceil(0.99 * len(ordered)) - 1]


def figures_of(one: Usage | PrefixUsage | TenantUsage | RequestUsage) -> dict[str, object]:
    """Fields and ratios by name, without those that have no meaning here."""
    ratios = {name: getattr(one, name) for name, value in vars(type(one)).items() if isinstance(value, property)}
    figures = asdict(one) | ratios
    return {name: value for name, value in figures.items() if value is not None and name != "conserved"}


def print_stats(usages: Iterable[Usage]) -> str:
    """A table for people, one row a pool; bytes in MiB, and "-" where a figure has no meaning."""
    rows = [_HEAD, *(_row(usage) for usage in usages)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


_HEAD = (
    "pool total asked held limbo free largest frag% inner% live allocs hit% peak failed frag_failed saved leaks "
    "p99_us oom/h"
).split()


def _row(usage: Usage) -> Sequence[str]:
    sizes = (usage.total_bytes, usage.asked_bytes, usage.held_bytes, usage.limbo_bytes, usage.free_bytes)
    return [
        usage.pool,
        *(_mib(size) for size in (*sizes, usage.largest_free_bytes)),
        _text(usage.fragmentation, 100),
        _text(usage.internal_fragmentation, 100),
        str(usage.live),
        str(usage.allocs),
        _text(usage.hit_rate, 100),
        _mib(usage.peak_bytes),
        *(
            "-" if n is None else str(n)
            for n in (usage.failed, usage.fragmentation_failures, usage.fallbacks, usage.leaks)
        ),
        _text(usage.latency_ns_p99, 1e-3),
        _text(usage.failed_per_hour),
    ]


def _mib(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else f"{size_bytes / (1 << 20):.2f}"


def _text(value: float | None, times: float = 1) -> str:
    return "-" if value is None else f"{value * times:.1f}"
