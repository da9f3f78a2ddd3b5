"""What the canaries must answer: computed before the trial by another process, in exact mode, one request at a time.

No scheduler, no batch, no pool and no fault has touched these numbers, so agreement with them means something.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from harness.load.config import CanaryConfig
from harness.load.prompt import canary_text, sha
from harness.plan.plan import Plan
from harness.record.canary import Answer, Reference, write_reference

REFERENCE_MAX_S = 300.0


class ReferenceFailed(Exception):
    """The reference could not be computed, so the canaries would mean nothing."""


def compute_reference(plan: Plan, directory: Path, say: Callable[[str], None]) -> Reference | None:
    """Also written to `reference.json` in the run directory. None when the scenario wants self-agreement."""
    if plan.scenario.canary.reference == "self":
        return None
    say("computing the canaries' reference (exact mode, one request at a time)")
    canary = CanaryConfig()
    prompts = [canary_text(plan.scenario.seed, index, canary.prompt_tokens) for index in range(canary.prompts)]
    argv = [sys.executable, "-m", "runtime.models.reference"]
    model = plan.scenario.target.model or plan.scenario.target.knobs.get("model")
    if model is not None:
        argv += ["--model", str(model)]
    asked = [{"id": sha(text), "text": text, "max_tokens": canary.output_tokens} for text in prompts]
    done = subprocess.run(
        argv, input=json.dumps({"prompts": asked}), capture_output=True, text=True, timeout=REFERENCE_MAX_S
    )
    if done.returncode != 0:
        raise ReferenceFailed(f"the exact reference ended with code {done.returncode}: {done.stderr.strip()[-400:]}")
    said = json.loads(done.stdout)
    answers = {
        one["id"]: Answer(tuple(one["names"]), tuple(one["logprobs"]), tuple(one["margins"]), one["text"])
        for one in said["replies"]
    }
    reference = Reference(f"exact {said['weights_digest'][:16]}", answers)
    write_reference(directory / "reference.json", reference)
    return reference
