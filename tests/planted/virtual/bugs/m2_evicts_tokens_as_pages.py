"""Eviction counts in tokens where the pool counts in pages: it gives up more than it hands back.

The real bug: mini-sglang dae78f6, an eviction that took one unit for the other. Here: `n` blocks are asked for, the
index forgets as many blocks as those have slots, and `n` arrive at the free list; the rest is nowhere.
"""

import pytest

from runtime.memory.kv.paged import PagedPool

SCENARIO = "pr-shared-prefix"
JUDGE = "invariants"


def plant(patch: pytest.MonkeyPatch) -> None:
    evict = PagedPool._evict

    def _evict(self, n, owner):
        if n > self.index.evictable:
            return False
        before = len(self._free)
        if not evict(self, min(n * self.block_tokens, self.index.evictable), owner):
            return False
        del self._free[before + n :]
        return True

    patch.setattr(PagedPool, "_evict", _evict)
