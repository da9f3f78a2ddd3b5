"""How many tokens came from the cache is not set back when a request gives its blocks up, and is added to next time.

The real bug: nano-vllm 77dd709, a stale count of tokens after a prefix hit that ended in an index error. Here the next
token to compute lies so much too far when a preempted request hits again. Our plan takes blocks for it, so no index is
out of range: it is what stands in the blocks that tells.
"""

import pytest

from runtime.scheduling.request import Request

SCENARIO = "pr-recompute"
JUDGE = "invariants"


def plant(patch: pytest.MonkeyPatch) -> None:
    adopt_prefix = Request.adopt_prefix

    def _begin_behind(self, blocks, generations):
        adopt_prefix(self, blocks, generations)
        if self.preempted:
            self.computed = min(self.computed + self.cached, len(self.tokens) - 1)

    patch.setattr(Request, "adopt_prefix", _begin_behind)
