"""Computes the correct replies of greedy requests in another process, in exact mode, one request at a time.

No scheduler, no batch, no pool and no fault has touched these numbers, so agreement with them means something. Before
the trial for the canaries; after it, when the server is gone, for bystanders (harness.live.twins).
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.load.prompt import canary_text, text_digest
from harness.plan.canary import CanaryConfig
from harness.plan.plan import Plan
from harness.record.canary import Answer, Reference, write_reference

REFERENCE_MAX_S = 300.0


class ReferenceFailed(Exception):
    """The reference could not be computed, so what it is held against would mean nothing."""


@dataclass(frozen=True)
class Prompt:
    """A question for the reference; `id` names the answer."""

    id: str
    text: str
    max_tokens: int


def compute_reference(plan: Plan, directory: Path, say: Callable[[str], None]) -> Reference | None:
    """Also written to `reference.json` in the run directory. None when the scenario wants self-agreement."""
    if plan.scenario.canary.reference == "self":
        return None
    say("computing the canaries' reference (exact mode, one request at a time)")
    canary = CanaryConfig()
    texts = [canary_text(plan.scenario.seed, index, canary.prompt_tokens) for index in range(canary.prompts)]
    prompts = [Prompt(text_digest(text), text, canary.output_tokens) for text in texts]
    digest, answers = exact_answers(plan, prompts, REFERENCE_MAX_S)
    reference = Reference(f"exact {digest[:16]}", answers)
    write_reference(directory / "reference.json", reference)
    return reference


def exact_answers(plan: Plan, prompts: Sequence[Prompt], most_s: float) -> tuple[str, dict[str, Answer]]:
    """The weights' digest, and each prompt's answer by its id. Raises ReferenceFailed."""
    argv = [sys.executable, "-m", "runtime.models.reference"]
    model = plan.scenario.target.model or plan.scenario.target.knobs.get("model")
    if model is not None:
        argv += ["--model", str(model)]
    asked = json.dumps({"prompts": [asdict(prompt) for prompt in prompts]})
    try:
        done = subprocess.run(argv, input=asked, capture_output=True, text=True, timeout=most_s)
    except subprocess.TimeoutExpired:
        raise ReferenceFailed(f"the exact reference had no answer to {len(prompts)} prompts in {most_s:g} s") from None
    if done.returncode != 0:
        raise ReferenceFailed(f"the exact reference ended with code {done.returncode}: {done.stderr.strip()[-400:]}")
    said = json.loads(done.stdout)
    return said["weights_digest"], {
        one["id"]: Answer(tuple(one["names"]), tuple(one["logprobs"]), tuple(one["margins"]), one["text"])
        for one in said["replies"]
    }
