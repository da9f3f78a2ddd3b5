"""Computes the correct replies of greedy requests in another process, in exact mode, one request at a time.

The computation uses no scheduler, batch, pool or fault, so it is independent of the runtime under test. It runs before
the trial for the canaries, and after the end of the server for bystanders (harness.live.twins).
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
    """The reference could not be computed, so no reply can be compared with it."""


@dataclass(frozen=True)
class Prompt:
    """A prompt for the reference; its answer has the same `id`."""

    id: str
    text: str
    max_tokens: int


def compute_reference(plan: Plan, directory: Path, say: Callable[[str], None]) -> Reference | None:
    """Compute the canaries' reference and write it to `reference.json` in the run directory.

    Returns None when the scenario uses self-agreement. Raises ReferenceFailed.
    """
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
    """Return the digest of the weights and the answers by prompt id. Raises ReferenceFailed after `most_s` seconds."""
    argv = [sys.executable, "-m", "runtime.models.reference"]
    model = plan.scenario.target.model or plan.scenario.target.knobs.get("model")
    if model is not None:
        argv += ["--model", str(model)]
    asked = json.dumps({"prompts": [asdict(prompt) for prompt in prompts]})
    try:
        done = subprocess.run(argv, input=asked, capture_output=True, text=True, timeout=most_s)
    except subprocess.TimeoutExpired:
        raise ReferenceFailed(f"the exact reference did not finish {len(prompts)} prompts in {most_s:g} s") from None
    if done.returncode != 0:
        raise ReferenceFailed(f"the exact reference ended with code {done.returncode}: {done.stderr.strip()[-400:]}")
    said = json.loads(done.stdout)
    return said["weights_digest"], {
        one["id"]: Answer(tuple(one["names"]), tuple(one["logprobs"]), tuple(one["margins"]), one["text"])
        for one in said["replies"]
    }
