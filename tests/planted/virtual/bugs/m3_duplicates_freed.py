"""Blocks of a prompt that others hold too are freed as duplicates, and the request still points at them.

The real bug: mini-sglang PR #142. The live suite has the same one in the real server; this is that file, planted here.
"""

import pytest

from runtime.scheduling import scheduler
from tests.planted.site.sitecustomize import bug_of

SCENARIO = "pr-no-sharing"
JUDGE = "invariants"


def plant(patch: pytest.MonkeyPatch) -> None:
    for name in ("_ensure_blocks", "remove"):  # so that it is taken out again
        patch.setattr(scheduler.Scheduler, name, getattr(scheduler.Scheduler, name))
    bug_of("given_twice").plant(scheduler, every=3)
