"""Distributions of the number of tokens: a constant, a uniform range, or a truncated lognormal.

    prompt_tokens = 64                                         always 64
    prompt_tokens = [20, 400]                                  each whole number from 20 to 400 with equal chance
    prompt_tokens = { lognormal = [300, 0.8], max = 1500 }     median 300, sigma 0.8 of the logarithm, truncated at 1500

A draw is the inverse of the distribution function at one uniform number, so each request uses one number. The lognormal
is conditioned on `max` and not clamped, so requests of exactly `max` tokens do not pile up.
"""

import difflib
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from scenarios.units import InvalidValue

_NORMAL: Final = NormalDist()
TOKENS_MAX: Final = 10_000_000  # beyond any context length; a larger number is a typing error


@dataclass(frozen=True, slots=True)
class Constant:
    tokens: int

    def draw(self, uniform: float) -> int:
        """The number of tokens for a uniform number in [0, 1)."""
        return self.tokens

    def mean(self) -> float:
        return float(self.tokens)

    def to_toml(self) -> object:
        """The distribution as the scenario file writes it."""
        return self.tokens


@dataclass(frozen=True, slots=True)
class Uniform:
    low: int
    high: int

    def draw(self, uniform: float) -> int:
        return self.low + int(uniform * (self.high - self.low + 1))

    def mean(self) -> float:
        return (self.low + self.high) / 2

    def to_toml(self) -> object:
        return [self.low, self.high]


@dataclass(frozen=True, slots=True)
class Lognormal:
    median: float
    sigma: float
    max: int

    def draw(self, uniform: float) -> int:
        below = uniform * self._mass()
        if below <= 0:
            return 1
        return min(self.max, max(1, round(self.median * math.exp(self.sigma * _NORMAL.inv_cdf(below)))))

    def mean(self) -> float:
        whole = self.median * math.exp(self.sigma**2 / 2)
        return whole * _NORMAL.cdf(math.log(self.max / self.median) / self.sigma - self.sigma) / self._mass()

    def to_toml(self) -> object:
        return {"lognormal": [self.median, self.sigma], "max": self.max}

    def _mass(self) -> float:
        """The probability that the lognormal without truncation lies below `max`."""
        return _NORMAL.cdf(math.log(self.max / self.median) / self.sigma)


TokenDistribution = Constant | Uniform | Lognormal


def parse_distribution(value: object) -> TokenDistribution:
    """Parse a TOML value. Raises InvalidValue that says what is wrong with it."""
    match value:
        case Constant() | Uniform() | Lognormal():
            return value
        case bool():
            pass
        case int():
            return Constant(_tokens(value))
        case [low, high]:
            low_tokens, high_tokens = _tokens(low), _tokens(high)
            if low_tokens > high_tokens:
                raise InvalidValue("a range of tokens is [low, high]", f"write [{high_tokens}, {low_tokens}]")
            return Uniform(low_tokens, high_tokens)
        case dict():
            return _parse_lognormal(value)
    raise InvalidValue("tokens are a number, [low, high], or { lognormal = [median, sigma], max = tokens }")


def _parse_lognormal(table: dict[str, object]) -> Lognormal:
    known = ("lognormal", "max")
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            remedy = f'did you mean "{close[0]}"?' if close else "it has lognormal and max"
            raise InvalidValue(f'a distribution has no key "{key}"', remedy)
    if "max" not in table:
        raise InvalidValue("a lognormal distribution needs an end", "add max = the most tokens the model can take")
    match table.get("lognormal"):
        case [int() | float() as median, int() | float() as sigma] if (
            not isinstance(median, bool) and not isinstance(sigma, bool) and median >= 1 and 0 < sigma <= 5
        ):
            most = _tokens(table["max"])
            if most <= median:
                raise InvalidValue("max lies above the median", f"write max = {round(4 * median)}")
            return Lognormal(float(median), float(sigma), most)
    rule = "lognormal is [median of at least 1 token, sigma above 0 and up to 5]"
    raise InvalidValue(rule, "write lognormal = [300, 0.8]")


def _tokens(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= TOKENS_MAX:
        return value
    raise InvalidValue(f"a number of tokens is a whole number from 1 to {TOKENS_MAX:,}")
