"""A prompt whose every token is cached has nothing left to compute, and so nothing to draw the next token from.

The real bug: nano-vllm #144 (`seqlen_q = 0`). Here such a request heads the queue, asks for a row of no tokens and
never gets one.
"""

import pytest

from runtime.scheduling.request import Request
from runtime.scheduling.scheduler import Scheduler

SCENARIO = "pr-repeats"
JUDGE = "answered"


def plant(patch: pytest.MonkeyPatch) -> None:
    def _cached(self, request):
        return self._pool.index.find(request.keys_of(len(request.tokens) // self._pool.block_tokens))

    def _begin_behind(self, blocks, generations):
        self.give(blocks, generations)
        self.computed = len(blocks) * self.tags.table.block_tokens
        self.tags.extend(self.tokens[: self.computed])
        self.published = len(blocks)

    patch.setattr(Scheduler, "_cached", _cached)
    patch.setattr(Request, "adopt_prefix", _begin_behind)
