"""Asks the oracle (harness.oracle) in another process for the correct replies of requests.

The oracle shares no code with the runtime on trial. It runs before the trial for the canaries, and after the end of the
server for bystanders (harness.live.twins).
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
    """A prompt for the oracle; its answer has the same `id`."""

    id: str
    text: str
    max_tokens: int


def compute_reference(plan: Plan, directory: Path, say: Callable[[str], None]) -> Reference | None:
    """Compute the canaries' reference and write it to `reference.json` in the run directory.

    Returns None when the scenario uses self-agreement. Raises ReferenceFailed.
    """
    if plan.scenario.canary.reference == "self":
        return None
    say("computing the canaries' reference (a second implementation of the model)")
    canary = CanaryConfig()
    texts = [canary_text(plan.scenario.seed, index, canary.prompt_tokens) for index in range(canary.prompts)]
    prompts = [Prompt(text_digest(text), text, canary.output_tokens) for text in texts]
    digest, answers = exact_answers(plan, prompts, REFERENCE_MAX_S)
    reference = Reference(f"exact {digest[:16]}", answers)
    write_reference(directory / "reference.json", reference)
    return reference


def exact_answers(plan: Plan, prompts: Sequence[Prompt], most_s: float) -> tuple[str, dict[str, Answer]]:
    """Return the digest of the weights and the oracle's answers by prompt id. Raises ReferenceFailed after `most_s`
    seconds, and with every problem of a model that can't be served."""
    named = plan.scenario.target.model or plan.scenario.target.knobs.get("model")
    served = json.loads(_output("runtime.models.served", [] if named is None else [str(named)], "", most_s))
    asked = json.dumps([asdict(prompt) for prompt in prompts])
    said = json.loads(_output("harness.oracle", [served["directory"]], asked, most_s))
    return served["weights_digest"], {
        one["id"]: Answer(tuple(one["names"]), tuple(one["logprobs"]), tuple(one["margins"]), one["text"])
        for one in said
    }


def _output(module: str, arguments: Sequence[str], asked: str, most_s: float) -> str:
    """Return the output of `python -m module`. Raises ReferenceFailed."""
    argv = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(argv, input=asked, capture_output=True, text=True, timeout=most_s)
    except subprocess.TimeoutExpired:
        raise ReferenceFailed(f"the reference was not computed in {most_s:g} s") from None
    if done.returncode != 0:
        raise ReferenceFailed(
            f"no reference for the replies: {module} ended with code {done.returncode}: {done.stderr.strip()[-1000:]}"
        )
    return done.stdout
