"""Simulated probe latencies for `benchmarks.verdict_power`: lognormal, under a load that moves them, and with an age.

    log latency = sigma x noise + slow wander of the server + how latency follows the load + the curve of the age

A probe comes at constant rate. The offered load is that of one open loop in blocks, with arrivals by chance; `follows`
turns it into latency as a queue does: -log(1 - utilisation), 0.35 at the mean load.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from assertions.expression import Expression
from assertions.offered_load import OfferedLoad, of_counts
from assertions.probe_latency import values_needed
from assertions.rows import Floats
from assertions.trend import SubBlocks, quantile
from assertions.trend.sub_blocks import BLOCKS
from benchmarks.verdict_peers import ols

LIMIT = 0.2
"""The limit of the drift check, as a share over the trial."""
UTILISATION = 0.35
ARRIVALS_PER_S = 4.0


@dataclass(frozen=True)
class Ageing:
    """`curve` gives the growth of the logarithm at a time from 0 to 1; `load` the load then, as a share of its mean."""

    name: str
    kind: str
    curve: Callable[[Floats], Any]
    load: str = "constant"


def _log(share: float) -> float:
    return float(np.log1p(share))


AGEINGS = (
    Ageing("nothing ages", "clean", lambda t: 0 * t),
    Ageing("+20 %, the limit", "at", lambda t: _log(0.2) * t),
    Ageing("+40 %", "guilty", lambda t: _log(0.4) * t),
    Ageing("+80 %", "guilty", lambda t: _log(0.8) * t),
    Ageing("+40 % at once at half", "innocent", lambda t: _log(0.4) * (t >= 0.5)),
    Ageing("warm-up of 40 %, tau .15", "innocent", lambda t: _log(0.4) * (1 - np.exp(-t / 0.15))),
    Ageing("+60 % from half on", "guilty", lambda t: _log(0.6) * np.maximum(2 * t - 1, 0)),
    Ageing("wave of 30 %", "innocent", lambda t: 0.3 * np.sin(2 * np.pi * (1.5 * t + 0.2))),
    Ageing("load fluctuates", "clean", lambda t: 0 * t, "fluctuates"),
    Ageing("load fluctuates, +60 %", "guilty", lambda t: _log(0.6) * t, "fluctuates"),
    Ageing("load doubles", "innocent", lambda t: 0 * t, "doubles"),
)


@dataclass(frozen=True)
class Probing:
    """The probes of one simulated trial."""

    hours: float
    per_s: float
    sigma: float
    stat: str
    wander: float = 0.05
    """SD of the slow wander of a latency's logarithm, which is AR(1) .9 by the minute."""

    @property
    def expression(self) -> Expression:
        return Expression(f"drift.ttft.{self.stat} < 20%", "drift.ttft", self.stat, "<", LIMIT, "share")

    @property
    def number(self) -> int:
        return round(self.hours * 3600 * self.per_s)

    @property
    def blocks(self) -> int:
        return min(BLOCKS, self.number // values_needed(self.expression))


def probe_logs(ageing: Ageing, probing: Probing, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The logarithms of the latencies [probes] of one trial, and the arrivals of the load in each block [blocks]."""
    at = (np.arange(probing.number) + 0.5) / probing.number
    minutes = round(probing.hours * 60)
    load = np.ones(minutes)
    if ageing.load == "fluctuates":
        load = np.clip(1 + 0.2 * _ar1(rng, minutes, 0.97), 0.2, 2.0)
    elif ageing.load == "doubles":
        load = np.linspace(2 / 3, 4 / 3, minutes)
    slow = probing.wander * _ar1(rng, minutes, 0.9) - np.log(1 - UTILISATION * load)
    logs = probing.sigma * rng.standard_normal(probing.number) + ageing.curve(at)
    logs += slow[np.minimum((at * minutes).astype(np.int64), minutes - 1)]
    block_s = probing.hours * 3600 / probing.blocks
    of_block = np.interp((np.arange(probing.blocks) + 0.5) / probing.blocks, (np.arange(minutes) + 0.5) / minutes, load)
    return logs, rng.poisson(ARRIVALS_PER_S * block_s * of_block).astype(np.float64)


def probe_blocks(probing: Probing, logs: Floats, arrivals: Floats) -> tuple[SubBlocks, OfferedLoad]:
    """The blocks of one trial, as the judge makes them, with its load."""
    count = probing.blocks
    of = quantile(probing.expression.quantile or 1.0)
    values = np.array([of(each, np.ones(len(each))) for each in np.array_split(logs, count)])
    at, phase = np.arange(count, dtype=np.float64), np.zeros(count, np.int64)
    load = of_counts(arrivals, phase)
    width_ns = probing.hours * 3600e9 / count
    return SubBlocks(at, values, phase, at * width_ns, width_ns, covariates=load.covariates), load


def least_squares(probing: Probing, logs: Floats) -> tuple[float, float]:
    """The 1 % bounds of the change by least squares through the quantiles of eight equal periods, with a t interval."""
    of = quantile(probing.expression.quantile or 1.0)
    values = np.array([of(each, np.ones(len(each))) for each in np.array_split(logs, 8)])
    return ols((np.arange(8) + 0.5) / 8, values)


def _ar1(rng: np.random.Generator, n: int, correlation: float) -> Floats:
    shocks = rng.standard_normal(n)
    made = shocks.copy()
    for step in range(1, n):
        made[step] = correlation * made[step - 1] + np.sqrt(1 - correlation**2) * shocks[step]
    return made
