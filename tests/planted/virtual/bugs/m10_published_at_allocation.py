"""A block can be found as soon as it is handed out, before the launch that computes its KV.

The real bug: nano-vllm before f64d821. Two prompts that begin alike and enter with one step: the second reads what the
first has not written yet. Our engine asserts before each launch that it writes no published block, which alone would
stop this; here that is taken out, so that it is for the tags to find.
"""

import pytest

from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.scheduler import Scheduler

SCENARIO = "pr-burst"
JUDGE = "invariants"


def plant(patch: pytest.MonkeyPatch) -> None:
    add = Scheduler._add

    def _add(self, request, budget, rows):
        tokens = add(self, request, budget, rows)
        full = (request.computed + tokens) // self._pool.block_tokens
        keys = request.keys_of(full)
        fresh = slice(request.published, full)
        self._pool.publish(request.owner, request.blocks[fresh], request.generations[fresh], keys[fresh])
        request.published = max(full, request.published)
        return tokens

    patch.setattr(Scheduler, "_add", _add)
    patch.setattr(PagedPool, "check_writes", lambda self, blocks: None)
