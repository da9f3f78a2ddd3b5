"""The canaries of a run: fixed greedy prompts that are sent again and again, and whose answers must not change."""

from collections.abc import Collection
from dataclasses import dataclass

from assertions.agreement import prompts_known
from scenarios.schema import Scenario


@dataclass(frozen=True)
class CanaryConfig:
    """Times in seconds, sizes in tokens. `logprobs`: how many alternatives to ask for; 0 asks for none."""

    every_s: float = 5.0
    prompts: int = 8
    prompt_tokens: int = 48
    output_tokens: int = 32
    logprobs: int = 2
    group: str | None = None
    timeout_s: float = 60.0


def canaries_of(scenario: Scenario, capabilities: Collection[str]) -> CanaryConfig:
    """The canaries of a plan with these capabilities.

    A foreign target is asked for no log probabilities: self-agreement compares texts, and many servers refuse them.
    Without a reference only a prompt that came twice before the trial can be judged in it.
    """
    every_s, exact = scenario.canary.every, "exact" in capabilities
    logprobs = CanaryConfig.logprobs if exact else 0
    if exact and scenario.canary.reference != "self":
        return CanaryConfig(every_s, logprobs=logprobs)
    return CanaryConfig(every_s, max(1, prompts_known(every_s, scenario.phases.baseline)), logprobs=logprobs)
