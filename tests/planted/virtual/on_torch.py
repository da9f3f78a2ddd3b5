"""Bugs that need real tensors, on one CPU thread: M9, since a simulated device has no positions to get wrong, and M13.

The runtime answers some prompts through engine, device and model; each answer is held against the oracle the
way the `tokens` judge holds a canary, and the tag plane watches. M9 is the file that the live suite plants in the
server; M13 writes KV that comes back from the host into a temporary, as `cache[blocks].copy_(host)` does.
"""

import random
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.oracle.model import Model
from harness.oracle.reply import Ask, replies
from harness.record.canary import Answer, Comparison, compare
from runtime.device import torch_mover
from runtime.models import runner
from tests.planted.site.sitecustomize import bug_of
from tests.runtime.models.worlds import random_model
from tests.runtime.test_prefix_torch import OUTPUT, serve


@dataclass(frozen=True)
class Answered:
    """Every prompt's answer against the reference. `wall_s` is the runtime's part and the comparison."""

    compared: tuple[Comparison, ...]
    breaches: int
    """Blocks that did not hold what their requests wrote."""
    swapped: int
    wall_s: float

    @property
    def corrupt(self) -> int:
        """AnswerCheck that the judge would call corruption."""
        return sum(each.state == "corrupt" for each in self.compared)


def answer(directory: Path, bug: str = "", *, blocks: int = 64, swap_blocks: int = 0, prompts: int = 4) -> Answered:
    """`directory` is filled with a small random model when it has none. `bug`: M9, M13 or none."""
    if not (directory / "config.json").exists():
        random_model("Llama").save_pretrained(directory)
    rng = random.Random(9)
    asked = [[rng.randrange(211) for _ in range(rng.randrange(20, 60))] for _ in range(prompts)]
    known = replies(Model(directory), [Ask(prompt, OUTPUT) for prompt in asked])
    began_s = time.perf_counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "prepare", runner.prepare)  # so that it is taken out again
        if bug == "M9":
            bug_of("position_off_by_one").plant(runner)
        elif bug == "M13":
            patch.setattr(torch_mover, "move_in", lambda store, at, there: store[at].copy_(there))
        sink, env = serve(directory, asked, blocks=blocks, cache=True, exact=False, swap_blocks=swap_blocks)
    compared = tuple(
        compare(
            Answer(tuple(map(str, one.tokens)), None, tuple(one.margins)),
            Answer(tuple(str(token) for token in sink.tokens[str(n)])),
        )
        for n, one in enumerate(known)
    )
    marks = env.counters.total
    return Answered(compared, marks["kv.tag_breach"], marks["swap.in"], time.perf_counter() - began_s)


def swapped(directory: Path, bug: str = "") -> Answered:
    """The same with so few blocks that requests are swapped out and come back."""
    return answer(directory, bug, blocks=14, swap_blocks=40, prompts=12)
