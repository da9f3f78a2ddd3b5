"""M9 has no virtual form, since a simulated device has no positions to get wrong: the real model on one CPU thread.

The runtime answers some prompts through engine, device and model; each answer is held against the exact reference the
way the `tokens` judge holds a canary. Planted is the file that the live suite plants in the server.
"""

import random
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.record.canary import Answer, Compared, compare
from runtime.models import paged
from runtime.models.reference import Reference
from tests.planted.site.sitecustomize import bug_of
from tests.runtime.models.worlds import random_model
from tests.runtime.test_prefix_torch import OUTPUT, serve


@dataclass(frozen=True)
class Answered:
    """Every prompt's answer against the reference. `wall_s` is the runtime's part and the comparison."""

    compared: tuple[Compared, ...]
    invariants_held: bool
    wall_s: float

    @property
    def corrupt(self) -> int:
        """Answers that the judge would call corruption."""
        return sum(each.state == "corrupt" for each in self.compared)


def answer(directory: Path, *, off_by_one: bool, prompts: int = 4) -> Answered:
    """`directory` is filled with a small random model when it has none."""
    if not (directory / "config.json").exists():
        random_model("Llama").save_pretrained(directory)
    rng = random.Random(9)
    asked = [[rng.randrange(211) for _ in range(rng.randrange(20, 60))] for _ in range(prompts)]
    reference = Reference(directory)
    known = [reference.greedy(prompt, OUTPUT) for prompt in asked]
    began_s = time.perf_counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paged, "lay_out", paged.lay_out)  # so that it is taken out again
        if off_by_one:
            bug_of("position_off_by_one").plant(paged)
        sink, env = serve(directory, asked, blocks=64, cache=True, exact=False)
    compared = tuple(
        compare(
            Answer(tuple(map(str, one.tokens)), None, tuple(one.margins)),
            Answer(tuple(str(token) for token in sink.tokens[str(n)])),
        )
        for n, one in enumerate(known)
    )
    return Answered(compared, env.marks.total["kv.tag_breach"] == 0, time.perf_counter() - began_s)
