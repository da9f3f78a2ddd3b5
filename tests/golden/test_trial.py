"""A model that is computed wrongly in every process of the runtime FAILs `tokens` in a trial of the library."""

from pathlib import Path

import pytest
import torch

from assertions.verdict import State
from harness.load.prompt import canary_text
from harness.record.canary import Answer, compare
from runtime.models.default import default_model
from tests.golden.planted import PLANTED
from tests.golden.trial import plan_of, tokens_of
from tests.runtime.models.worlds import Driver, generate, open_paged

CHUNKED = {"token_budget": 24}
"""So that every prompt of the scenario has several chunks."""


def test_a_healthy_runtime_passes(tmp_path: Path) -> None:
    judged = tokens_of(plan_of("first-soak", **CHUNKED), tmp_path, bystanders=3)
    assert judged.state is State.PASS, judged.summary
    assert judged.observed == "8 canaries and 6 bystanders compared"


SLOW = ("wrong_theta", "wrong_epsilon")  # a trial takes 10 s of CPU; the test below runs all of them


@pytest.mark.parametrize("bug", [pytest.param(bug, marks=pytest.mark.slow) if bug in SLOW else bug for bug in PLANTED])
def test_a_model_that_is_wrong_everywhere_fails(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[bug](monkeypatch)
    judged = tokens_of(plan_of("first-soak", **CHUNKED), tmp_path, bystanders=3)
    assert judged.state is State.FAIL, judged.summary
    assert judged.fault is None
    everywhere = "no canary is right, so the model itself is computed wrongly" in judged.summary
    assert everywhere == (bug != "wrong_chunk_edge"), judged.summary


@pytest.mark.parametrize("bug", PLANTED)
def test_no_second_run_of_the_runtimes_own_code_could_tell(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why there is an oracle: what the runtime says in chunks equals what its exact mode says alone."""
    PLANTED[bug](monkeypatch)
    for size in (48, 100):
        prompt = list(canary_text(7, size, size).encode())
        said = [
            generate(Driver(open_paged(default_model(), exact=exact)), prompt, 12, chunk)
            for exact, chunk in ((True, 1000), (False, CHUNKED["token_budget"]))
        ]
        exact, plain = (
            Answer(
                tuple(map(str, course.tokens[size:])),
                tuple(float(torch.log_softmax(line, 0).max()) for line in course.logits),
            )
            for course in said
        )
        assert compare(exact, plain).state in ("equal", "drift")
