"""Measures by simulation how often the statistical judges are wrong and what they can detect, and prints a table.

    python -m assertions.power             seconds, 400 runs a row
    python -m assertions.power 4000        minutes, for the docs

Noise is AR(1) per minute with marginal SD 1, as the memory and latency of a healthy server. Growth and budgets are
given over the whole run, in that SD. The judges' own code decides (`periods.Trend`, `stats.over_allowed`) on simulated
period values.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assertions import stats
from assertions.periods import PeriodValues, trend
from assertions.rows import Floats
from assertions.verdict import State

RUNS = 400
SEED = 20


@dataclass(frozen=True)
class Rates:
    """The shares of simulated runs that ended in each state."""

    passed: float
    failed: float

    @property
    def unknown(self) -> float:
        return 1 - self.passed - self.failed


def growth_rates(
    *,
    hours: float,
    block_minutes: int,
    correlation: float,
    growth_sd: float,
    budget_sd: float,
    runs: int,
    seed: int = SEED,
) -> Rates:
    """Rates of judge leak for a series that grows by `growth_sd` over the run, against a budget of `budget_sd`."""
    minutes = int(hours * 60)
    noise = ar1(runs, minutes, correlation, seed)
    values = noise + growth_sd * np.arange(minutes) / minutes
    periods = minutes // block_minutes
    means = values[:, : periods * block_minutes].reshape(runs, periods, block_minutes).mean(axis=2)
    middles = (np.arange(periods) + 0.5) * block_minutes / 60
    states = [
        trend(PeriodValues(middles, row, middles, block_minutes * 60.0, 0)).against("<", budget_sd / hours)
        for row in means
    ]
    return _rates(states)


def quantile_rates(
    *, n: int, over_share: float, quantile: float, correlation: float, runs: int, seed: int = SEED
) -> Rates:
    """Rates of a quantile check on n requests, of which `over_share` lies above the limit.

    Slow requests come in streaks: a request is slow where an AR(1) series exceeds a threshold.
    """
    from scipy.special import ndtri

    over = (ar1(runs, n, correlation, seed) > float(ndtri(1 - over_share))).sum(axis=1)
    allowed, tolerated = stats.over_allowed(n, quantile), stats.over_tolerated(n, quantile)
    return Rates(float(np.mean(over <= allowed)), float(np.mean(over > tolerated)))


def ar1(runs: int, length: int, correlation: float, seed: int) -> Floats:
    """Independent AR(1) series of marginal SD 1, started in their stationary state; shape [runs, length]."""
    rng = np.random.Generator(np.random.PCG64(seed))
    shocks: NDArray[np.float64] = rng.standard_normal((length, runs))
    series = np.empty((length, runs))
    series[0] = shocks[0]
    scale = np.sqrt(1 - correlation**2)
    for step in range(1, length):
        series[step] = correlation * series[step - 1] + scale * shocks[step]
    return series.T


def _rates(states: list[State]) -> Rates:
    return Rates(states.count(State.PASS) / len(states), states.count(State.FAIL) / len(states))


def table(runs: int) -> Iterator[str]:
    yield "Leak: whole-period blocks, line with a 1 % interval at each end; growth and budget in SD over the run"
    yield ""
    yield "| run | block | AR | growth | budget | PASS | UNKNOWN | FAIL |"
    yield "|---|---|---|---|---|---|---|---|"
    shapes = ((8.0, 60), (8.0, 20), (24.0, 60), (1.0, 5))
    for hours, block in shapes:
        for correlation in (0.0, 0.9, 0.97):
            for growth, budget in ((0.0, 0.0), (0.0, 1.0), (0.0, 2.0), (0.0, 4.0), (4.0, 4.0), (8.0, 4.0)):
                rates = growth_rates(
                    hours=hours,
                    block_minutes=block,
                    correlation=correlation,
                    growth_sd=growth,
                    budget_sd=budget,
                    runs=runs,
                )
                yield f"| {hours:g} h | {block} min | {correlation:g} | {growth:g} | {budget:g} | {_cells(rates)} |"
    yield ""
    yield "Ceiling of P99: binomial, 1 % at each end; `AR` is how far slow requests come in streaks"
    yield ""
    yield "| requests | AR | share above | PASS | UNKNOWN | FAIL |"
    yield "|---|---|---|---|---|---|"
    for n in (662, 2010, 10_000):
        for correlation in (0.0, 0.9):
            for share in (0.001, 0.005, 0.01, 0.02, 0.05):
                rates = quantile_rates(n=n, over_share=share, quantile=0.99, correlation=correlation, runs=runs)
                yield f"| {n} | {correlation:g} | {share:.1%} | {_cells(rates)} |"
    yield ""
    yield "Smallest budget that a clean series passes in nine runs of ten, in SD of its period values:"
    decidable = (f"{periods} periods {stats.smallest_decidable_sd(periods):.2f}" for periods in (8, 12, 16, 24, 48))
    yield ", ".join(decidable)


def _cells(rates: Rates) -> str:
    return f"{rates.passed:.3f} | {rates.unknown:.3f} | {rates.failed:.3f}"


if __name__ == "__main__":
    for text in table(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS):
        print(text)
