"""The canaries of a run: fixed greedy prompts that are sent again and again, and whose answers must not change."""

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from assertions.agreement import prompts_known
from faults.spec import DEFAULT_GROUP
from scenarios.schema import Scenario

Positive = Annotated[int, Field(ge=1)]
AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class CanaryConfig(BaseModel):
    """Times in seconds, sizes in tokens. `logprobs`: how many alternatives to ask for; 0 asks for none."""

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

    A foreign target is asked for no log probabilities: self-agreement compares texts, and many servers refuse them.
    Without a reference only a prompt that came twice before the trial can be judged in it.
    """
    every_s, exact = scenario.canary.every, "exact" in capabilities
    given: dict[str, Any] = {"every_s": every_s} if exact else {"every_s": every_s, "logprobs": 0}
    if not exact or scenario.canary.reference == "self":
        given["prompts"] = max(1, prompts_known(every_s, scenario.phases.baseline))
    return CanaryConfig(**given)
