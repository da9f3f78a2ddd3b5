"""The canaries of a run: fixed prompts with greedy decoding, sent periodically. Their replies must not change."""

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from assertions.agreement import prompts_known
from faults.spec import DEFAULT_GROUP
from scenarios.schema import Scenario

Positive = Annotated[int, Field(ge=1)]
AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class CanaryConfig(BaseModel):
    """Times are in seconds, sizes in tokens. `logprobs` is the number of alternatives to request (0: none)."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    every_s: AboveZero = 5.0
    prompts: Positive = 8
    prompt_tokens: Positive = 48
    output_tokens: Positive = 32
    logprobs: Annotated[int, Field(ge=0)] = 2
    group: str = DEFAULT_GROUP
    timeout_s: AboveZero = 60.0


def canaries_of(scenario: Scenario, capabilities: Collection[str]) -> CanaryConfig:
    """The canaries of a plan with these capabilities.

    A target without exact replies gets no request for log probabilities: self-agreement compares texts, and many
    servers refuse log probabilities. Without a reference, a prompt can be judged in the trial only if it was sent at
    least twice before the trial.
    """
    every_s, exact = scenario.canary.every, "exact" in capabilities
    given: dict[str, Any] = {"every_s": every_s} if exact else {"every_s": every_s, "logprobs": 0}
    if not exact or scenario.canary.reference == "self":
        given["prompts"] = max(1, prompts_known(every_s, scenario.phases.baseline))
    return CanaryConfig(**given)
