"""A part of a prompt is computed, and the length of the whole prompt is taken for what is there.

The real bug: nano-vllm 25794a1, `seqlen_k` of the whole sequence for a chunk of it, so that attention reads KV which
nobody has written. Here: after a chunk, one token more than it had counts as computed.
"""

import pytest

from runtime.scheduling.request import Request

SCENARIO = "pr-shared-prefix"
JUDGE = "invariants"


def plant(patch: pytest.MonkeyPatch) -> None:
    advance = Request.advance

    def _advance(self, computed, sampled, now_ns):
        beyond = sampled is None and self.remaining - computed > 1
        advance(self, computed + beyond, sampled, now_ns)

    patch.setattr(Request, "advance", _advance)
