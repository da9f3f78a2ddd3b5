"""As long as anybody has a prompt to compute, nobody decodes.

The real bug: SGLang #32549, one decode batch in 24 s under a stream of prompts; nano-vllm and mini-sglang have the same
rule. Every request ends well and nothing is lost, so only the gap between two tokens shows it: a check of the
scenario, since how long is too long is for its author to say.
"""

import pytest

from runtime.scheduling.scheduler import Scheduler

SCENARIO = "prompts"
JUDGE = "itl.max < 200ms [chat, all]"


def plant(patch: pytest.MonkeyPatch) -> None:
    plan = Scheduler.plan

    def _plan(self):
        decodes = [request for request in self.running if request.remaining == 1]
        if not decodes:
            return plan(self)
        self.running = [request for request in self.running if request.remaining > 1]
        found = plan(self)
        self.running = sorted([*self.running, *decodes], key=lambda request: request.seq)
        return found if found.batches else plan(self)

    patch.setattr(Scheduler, "plan", _plan)
