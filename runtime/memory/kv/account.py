"""Counters of one tenant in a paged pool, in blocks, calls and tokens. figures.py turns blocks into bytes."""

from dataclasses import dataclass


@dataclass(slots=True)
class Account:
    """One tenant's counts since the start of its pool."""

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

    def count_served(self, calls: int, evicting: int, blocks: int) -> None:
        """Count `calls` that were served, `evicting` of them by eviction, with `blocks` that no request held before."""
        self.allocs += calls
        self.evicting += evicting
        self.add_live(blocks)

    def add_live(self, blocks: int) -> None:
        """Count `blocks` more live blocks and update the peak."""
        self.live += blocks
        if self.live > self.peak:
            self.peak = self.live
