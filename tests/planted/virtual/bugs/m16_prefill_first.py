"""As long as anybody has a prompt to compute, nobody decodes.

The real bug: SGLang #32549, one decode batch in 24 s under a stream of prompts; nano-vllm and mini-sglang have the same
rule. Every request ends well and nothing is lost, so only the gap between two tokens shows it: a check of the
scenario, since how long is too long is for its author to say.
"""

import pytest

from runtime.scheduling.scheduler import Scheduler

SCENARIO = "pr-long-prompts"
JUDGE = "itl.max < 200ms [chat, all]"


def plant(patch: pytest.MonkeyPatch) -> None:
    rows = Scheduler._rows

    def _rows(self):
        decodes = [request for request in self.running if request.remaining == 1]
        if not decodes:
            return rows(self)
        self.running[:] = [request for request in self.running if request.remaining > 1]
        found = rows(self)
        self.running[:] = sorted([*self.running, *decodes], key=lambda request: request.rank)
        return found or rows(self)

    patch.setattr(Scheduler, "_rows", _rows)
