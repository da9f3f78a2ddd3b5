"""Counts of a paged pool: its blocks by state, and the use that one tenant makes of it."""

from dataclasses import dataclass
from typing import NamedTuple


class PoolCount(NamedTuple):
    """Number of blocks in each state. `live + limbo + cached + free == total`, unless a block is lost or doubled."""

    live: int
    """Held by at least one request; a shared block counts once."""
    limbo: int
    """Held by no request, and touched by a launch in flight."""
    free: int
    total: int
    cached: int = 0
    """Held by no request, and kept for prompts with the same prefix. They are evicted when blocks are needed."""

    @property
    def reclaimable(self) -> int:
        """Blocks that could be taken now."""
        return self.free + self.cached

    @property
    def sum(self) -> int:
        """The terms together; another number than `total` means that blocks are lost or counted twice."""
        return self.live + self.limbo + self.cached + self.free

    @property
    def conserved(self) -> bool:
        """True when the terms add up to `total`."""
        return self.sum == self.total


@dataclass(slots=True)
class Account:
    """One tenant's counts since the start of its pool, in blocks, calls and tokens."""

    allocs: int = 0
    """Calls for blocks that the pool served."""
    evicting: int = 0
    """Served calls that had to evict cached blocks."""
    failed: int = 0
    """Calls that the pool refused."""
    live: int = 0
    """Blocks that requests of the tenant hold now. A shared block counts once."""
    peak: int = 0
    """The most blocks that were live at once."""
    queries: int = 0
    """Tokens looked up in the prefix index at admission."""
    hits: int = 0
    """Looked-up tokens that were found."""

    def count_served(self, evicted: bool, blocks: int) -> None:
        """Count a served call for `blocks` blocks, which no request held before."""
        self.allocs += 1
        self.evicting += evicted
        self.add_live(blocks)

    def add_live(self, blocks: int) -> None:
        """Count `blocks` more live blocks and update the peak."""
        self.live += blocks
        if self.live > self.peak:
            self.peak = self.live
