"""The two kinds of work that `throughput_cpu` gives to its contenders.

equal    N prompts of one length with one number of new tokens each, all there before the first step
ragged   prompts and outputs of lognormal lengths; arrivals are a Poisson process
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

VOCABULARY = 1024


@dataclass(frozen=True)
class Asked:
    """One request."""

    prompt: tuple[int, ...]
    output: int
    """New tokens, exactly."""
    at_s: float
    """When it arrives, from the start of the run."""


@dataclass(frozen=True)
class Lengths:
    """A lognormal law of lengths in tokens, drawn again while outside of [1, highest]."""

    median: int
    sigma: float
    highest: int

    def draw(self, chance: random.Random) -> int:
        while not 1 <= (length := round(chance.lognormvariate(math.log(self.median), self.sigma))) <= self.highest:
            pass
        return length

    def __str__(self) -> str:
        return f"lognormal with median {self.median}, sigma {self.sigma}, at most {self.highest}"


PROMPTS = Lengths(64, 0.8, 384)
OUTPUTS = Lengths(64, 0.8, 384)


def equal(requests: int, prompt: int, output: int) -> tuple[Asked, ...]:
    """`requests` of one shape that are all there at once."""
    chance = random.Random("throughput/equal")
    return tuple(Asked(_tokens(chance, prompt), output, 0.0) for _ in range(requests))


def ragged(requests: int, tokens_per_s: float) -> tuple[Asked, ...]:
    """`requests` of lengths by PROMPTS and OUTPUTS. Arrivals are Poisson, at the rate at which they ask for
    `tokens_per_s` new tokens a second on the whole."""
    chance = random.Random("throughput/ragged")
    shapes = [(PROMPTS.draw(chance), OUTPUTS.draw(chance)) for _ in range(requests)]
    rate = tokens_per_s * requests / sum(output for _, output in shapes)
    at_s, asked = 0.0, []
    for prompt, output in shapes:
        asked.append(Asked(_tokens(chance, prompt), output, at_s))
        at_s += chance.expovariate(rate)
    return tuple(asked)


def new_tokens(work: Sequence[Asked]) -> int:
    """How many all of them ask for."""
    return sum(asked.output for asked in work)


def _tokens(chance: random.Random, count: int) -> tuple[int, ...]:
    return tuple(chance.randrange(VOCABULARY) for _ in range(count))
