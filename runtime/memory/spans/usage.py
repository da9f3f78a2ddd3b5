"""What a pool can say of itself: bytes now, counts since its start, and the figures that the seeds ask for."""

from dataclasses import dataclass

HOUR_NS = 3_600_000_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """One pool at one moment. `total == held + limbo + free + pinned`, all in bytes.

    The pool fills what is above the line; below it each figure is filled by the adaptor that its comment names, and is
    0 without that adaptor.
    """

    pool: str
    total_bytes: int
    asked_bytes: int
    """Of live spans, as asked."""
    held_bytes: int
    """Of live spans, with what rounding adds."""
    limbo_bytes: int
    """Ended, and waiting for the launch that touches them."""
    free_bytes: int
    largest_free_bytes: int
    pinned_bytes: int
    live: int
    allocs: int
    hits: int
    """Allocations that needed neither a refill nor a new segment."""
    # ---
    failed: int = 0  # Stats
    fragmentation_failures: int = 0  # Stats: failed though enough was free, in pieces
    peak_bytes: int = 0  # Stats: of held and limbo
    latency_ns_p99: int = 0  # Stats
    age_ns: int = 0  # Stats: since it was made
    fallbacks: int = 0  # Retry: allocations that a rung of the ladder saved
    leaks: int = 0  # Track: spans whose owner had ended

    @property
    def fragmentation(self) -> float:
        """External: 1 - largest free piece / free bytes, and 0 when nothing is free. Says nothing of paged KV."""
        return 1 - self.largest_free_bytes / self.free_bytes if self.free_bytes else 0.0

    @property
    def internal_fragmentation(self) -> float:
        """What rounding takes of that which is held; 0 when nothing is."""
        return 1 - self.asked_bytes / self.held_bytes if self.held_bytes else 0.0

    @property
    def hit_rate(self) -> float:
        """Of all allocations; 1 when there were none."""
        return self.hits / self.allocs if self.allocs else 1.0

    @property
    def failure_rate(self) -> float:
        """Failed of all that were asked."""
        return self.failed / (self.failed + self.allocs) if self.failed else 0.0

    @property
    def failed_per_hour(self) -> float:
        """Out-of-memory per hour of the pool's life."""
        return self.failed * HOUR_NS / self.age_ns if self.age_ns else 0.0

    @property
    def conserved(self) -> bool:
        """Whether the terms add up."""
        return self.held_bytes + self.limbo_bytes + self.free_bytes + self.pinned_bytes == self.total_bytes


def print_stats(usages: list[Usage]) -> str:
    """A table for people, one row a pool; bytes in MiB."""
    rows = [_HEAD, *(_row(usage) for usage in usages)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


_HEAD = (
    "pool total held limbo free largest frag% inner% live allocs hit% peak failed frag_failed fallbacks leaks "
    "p99_us oom/h"
).split()


def _row(usage: Usage) -> list[str]:
    sizes = (
        usage.total_bytes,
        usage.held_bytes,
        usage.limbo_bytes,
        usage.free_bytes,
        usage.largest_free_bytes,
    )
    return [
        usage.pool,
        *(_mib(size) for size in sizes),
        f"{usage.fragmentation:.1%}"[:-1],
        f"{usage.internal_fragmentation:.1%}"[:-1],
        str(usage.live),
        str(usage.allocs),
        f"{usage.hit_rate:.1%}"[:-1],
        _mib(usage.peak_bytes),
        str(usage.failed),
        str(usage.fragmentation_failures),
        str(usage.fallbacks),
        str(usage.leaks),
        f"{usage.latency_ns_p99 / 1000:.1f}",
        f"{usage.failed_per_hour:.1f}",
    ]


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.2f}"
