"""What a paged pool counts for one tenant, at each call. Counts of blocks and calls; figures.py makes bytes of them."""

from dataclasses import dataclass


@dataclass(slots=True)
class Account:
    """One tenant's counts since the start of its pool."""

    allocs: int = 0
    """Calls for blocks that were served."""
    evicting: int = 0
    """Of these, calls that had to evict."""
    failed: int = 0
    """Calls that were refused."""
    live: int = 0
    """Blocks that its requests hold now; a shared one counts once."""
    peak: int = 0
    """The most blocks that were live at once."""
    queries: int = 0
    """Tokens that were looked for in the prefix index at admission, and of these the ones found."""
    hits: int = 0

    def took(self, calls: int, evicting: int, blocks: int) -> None:
        """`calls` were served with `blocks` that nobody held before."""
        self.allocs += calls
        self.evicting += evicting
        self.grew(blocks)

    def grew(self, blocks: int) -> None:
        """So many more blocks are live."""
        self.live += blocks
        if self.live > self.peak:
            self.peak = self.live
