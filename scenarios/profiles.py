"""Rate profiles: the expected number of arrivals by a time, and its inverse.

Open-loop arrivals are Poisson arrivals of rate 1 on a transformed clock: if `E_n` is the nth of them, the nth request
comes at `time_of(E_n)`. The random draws are therefore independent of the profile.

    ramp    low ___/--- high     `period` long, then stays high
    burst   low ____|''| high    the last fifth of each period is high
    daily   low \\_/''\\ high      one cosine each period, starting at the low
"""

import math
from dataclasses import dataclass
from typing import Final, Protocol

BURST_SHARE: Final = 0.2


class Profile(Protocol):
    """A rate profile. Times are seconds from the start of the load, rates are per second."""

    def expected_by(self, t_s: float) -> float:
        """The expected number of arrivals in [0, t_s)."""

    def time_of(self, expected: float) -> float:
        """The time (s) at which `expected_by` reaches `expected`."""

    @property
    def rate_max(self) -> float:
        """The highest rate."""


@dataclass(frozen=True, slots=True)
class Flat:
    rate: float

    def expected_by(self, t_s: float) -> float:
        return self.rate * t_s

    def time_of(self, expected: float) -> float:
        return expected / self.rate

    @property
    def rate_max(self) -> float:
        return self.rate


@dataclass(frozen=True, slots=True)
class Ramp:
    low: float
    high: float
    period_s: float

    def expected_by(self, t_s: float) -> float:
        rising_s = min(t_s, self.period_s)
        climb = (self.high - self.low) * rising_s**2 / (2 * self.period_s)
        return self.low * rising_s + climb + self.high * max(0.0, t_s - self.period_s)

    def time_of(self, expected: float) -> float:
        whole = (self.low + self.high) / 2 * self.period_s
        if expected >= whole:
            return self.period_s + (expected - whole) / self.high
        if expected <= 0:
            return 0.0
        slope = (self.high - self.low) / self.period_s
        if self.low == 0:
            return math.sqrt(2 * expected / slope)  # the formula below divides 0 by 0 for the smallest counts
        # The root of slope/2 t^2 + low t = expected, written so that a small slope loses no digits.
        return 2 * expected / (self.low + math.sqrt(self.low**2 + 2 * slope * expected))

    @property
    def rate_max(self) -> float:
        return self.high


@dataclass(frozen=True, slots=True)
class Burst:
    low: float
    high: float
    period_s: float

    def expected_by(self, t_s: float) -> float:
        cycles, within_s = divmod(t_s, self.period_s)
        burst_s = max(0.0, within_s - self._quiet_s)
        return cycles * self._of_cycle + self.low * min(within_s, self._quiet_s) + self.high * burst_s

    def time_of(self, expected: float) -> float:
        cycles, within = divmod(expected, self._of_cycle)
        quiet = self.low * self._quiet_s
        if within < quiet:
            return cycles * self.period_s + within / self.low
        return cycles * self.period_s + self._quiet_s + (within - quiet) / self.high

    @property
    def rate_max(self) -> float:
        return self.high

    @property
    def _quiet_s(self) -> float:
        return self.period_s * (1 - BURST_SHARE)

    @property
    def _of_cycle(self) -> float:
        return self.low * self._quiet_s + self.high * self.period_s * BURST_SHARE


@dataclass(frozen=True, slots=True)
class Daily:
    low: float
    high: float
    period_s: float

    def expected_by(self, t_s: float) -> float:
        swing = (self.high - self.low) / 2 * self.period_s / (2 * math.pi)
        return (self.low + self.high) / 2 * t_s - swing * math.sin(2 * math.pi * t_s / self.period_s)

    def time_of(self, expected: float) -> float:
        cycles, within = divmod(expected, (self.low + self.high) / 2 * self.period_s)
        early, late = 0.0, self.period_s
        t_s = self.period_s * within / ((self.low + self.high) / 2 * self.period_s)
        for _ in range(60):  # Newton's method inside a shrinking bracket, because the slope is 0 at a low rate of 0
            over = self.expected_by(t_s) - within
            early, late = (early, t_s) if over > 0 else (t_s, late)
            slope = self._rate_at(t_s)
            following = t_s - over / slope if slope > 0 else early
            if not early < following < late:
                following = (early + late) / 2
            if abs(following - t_s) < 1e-9 * self.period_s:
                t_s = following
                break
            t_s = following
        return cycles * self.period_s + t_s

    @property
    def rate_max(self) -> float:
        return self.high

    def _rate_at(self, t_s: float) -> float:
        return self.low + (self.high - self.low) * (1 - math.cos(2 * math.pi * t_s / self.period_s)) / 2


def profile_of(arrivals: str, rate: float | tuple[float, float], period_s: float | None) -> Profile:
    """The profile of a load. The reader has checked that rate and period fit `arrivals`."""
    if isinstance(rate, float):
        assert arrivals in ("constant", "poisson"), f"{arrivals} has a range of rates"
        return Flat(rate)
    assert period_s is not None, f"{arrivals} has a period"
    low, high = rate
    match arrivals:
        case "ramp":
            return Ramp(low, high, period_s)
        case "burst":
            return Burst(low, high, period_s)
        case _:
            assert arrivals == "daily", f"{arrivals} has one rate"
            return Daily(low, high, period_s)
