"""Simulated series for `benchmarks.verdict_power`: noises of marginal SD 1, and shapes in that SD over the whole trial.

Noise is correlated by the minute, as the memory of a healthy server: white, AR(1), 1/f and a random walk, whole numbers
and values in steps of half an SD. A shape is innocent, guilty (it may not PASS), or sits at the budget.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from assertions.rows import Floats
from assertions.trend.sub_blocks import BLOCKS, SubBlocks

NOISES = ("white", "AR .9", "AR .97", "1/f", "random walk", "integer", "quantised")
HOUR_NS = 3600e9
STAIRS = (0.15, 0.3, 0.45, 0.6)


@dataclass(frozen=True)
class Shape:
    """`curve` takes (time 0 to 1 [blocks, 1], budget, excess, a generator) and returns [blocks, 1 or series]."""

    name: str
    kind: str
    curve: Callable[[Floats, float, float, np.random.Generator], Any]
    restarts: tuple[float, ...] = ()
    """When the server starts again, as shares of the trial."""


def _any(rng: np.random.Generator, low: float, high: float) -> float:
    return float(rng.uniform(low, high))


SHAPES = (
    Shape("clean", "clean", lambda t, b, e, rng: 0 * t),
    Shape("line at the budget", "at", lambda t, b, e, rng: b * t),
    Shape("line, excess half", "guilty", lambda t, b, e, rng: (b + e / 2) * t),
    Shape("line, excess", "guilty", lambda t, b, e, rng: (b + e) * t),
    Shape("warm-up, tau .2 to .3", "innocent", lambda t, b, e, rng: 2 * b * (1 - np.exp(-t / _any(rng, 0.2, 0.3)))),
    Shape("one step at half", "innocent", lambda t, b, e, rng: 2 * b * (t >= 0.5)),
    Shape("one step anywhere", "innocent", lambda t, b, e, rng: 2 * b * (t >= _any(rng, 0.1, 0.9))),
    Shape("two steps", "innocent", lambda t, b, e, rng: b * ((t >= _any(rng, 0.1, 0.4)) + (t >= _any(rng, 0.4, 0.7)))),
    Shape("four stairs, then flat", "innocent", lambda t, b, e, rng: b / 2 * sum(t >= c for c in STAIRS)),
    Shape("ramp to half, then flat", "innocent", lambda t, b, e, rng: 4 * b * np.minimum(t, 0.5)),
    Shape("cycle of 1.5 trials", "innocent", lambda t, b, e, rng: b * np.sin(2 * np.pi * (t / 1.5 + rng.random()))),
    Shape("cycle of half a trial", "innocent", lambda t, b, e, rng: b * np.sin(2 * np.pi * (2 * t + rng.random()))),
    Shape("sawtooth, 13 teeth", "innocent", lambda t, b, e, rng: b * ((12.8 * t + rng.random()) % 1)),
    Shape("three bursts", "innocent", lambda t, b, e, rng: 2 * b * (np.abs((3 * t + rng.random()) % 1 - 0.5) < 0.05)),
    Shape(
        "warm-up after a restart", "innocent",
        lambda t, b, e, rng: 2 * b * (1 - np.exp(-((2 * t) % 1) / 2 / 0.1)), (0.5,),
    ),
    Shape("leak from half on", "guilty", lambda t, b, e, rng: 2 * (b + e) * np.maximum(t - 0.5, 0)),
    Shape("leak from three quarters on", "guilty", lambda t, b, e, rng: 4 * (b + e) * np.maximum(t - 0.75, 0)),
    Shape("leak under a falling cache", "guilty", lambda t, b, e, rng: (b + e) * (t - 1 + np.exp(-t / 0.25))),
    Shape("leak that speeds up", "guilty", lambda t, b, e, rng: (b + e) * t**2),
    Shape("leak, restart at half", "guilty", lambda t, b, e, rng: 2 * (b + e) * (t % 0.5), (0.5,)),
    Shape("leak, restart each quarter", "guilty", lambda t, b, e, rng: 4 * (b + e) * (t % 0.25), (0.25, 0.5, 0.75)),
)  # fmt: skip


def curves(shape: Shape, blocks: SubBlocks, runs: int, budget: float, excess: float, seed: int) -> Floats:
    """The shape's curve for each run, [blocks, runs]."""
    rng = np.random.default_rng([seed, SHAPES.index(shape)])
    part = blocks.part[:, None]
    return np.hstack([np.broadcast_to(shape.curve(part, budget, excess, rng), part.shape) for _ in range(runs)])


def blocks_of(hours: float, shape: Shape, windows: bool) -> SubBlocks:
    """The blocks of a trial. `windows`: three fault windows of a twentieth each are left out."""
    at = np.arange(BLOCKS, dtype=np.float64)
    width_ns = hours * HOUR_NS / BLOCKS
    if windows:
        share = (at + 0.5) / BLOCKS
        at = at[~np.any([np.abs(share - each) < 0.025 for each in (0.2, 0.45, 0.7)], axis=0)]
    starts = tuple(int(np.searchsorted(at, each * BLOCKS)) for each in shape.restarts)
    return SubBlocks(at, at, np.zeros(len(at), np.int64), at * width_ns, width_ns, starts, BLOCKS - len(at))


def noise(name: str, hours: float, runs: int, seed: int) -> Floats:
    """Means of the noise over each block, [BLOCKS, runs]."""
    rng = np.random.default_rng([seed, NOISES.index(name)])
    fine = max(1, round(hours * 60 / BLOCKS))  # values in a block
    step_min = hours * 60 / BLOCKS / fine
    n = BLOCKS * fine
    if name == "1/f":
        made = _one_over_f(rng, runs, n)
    elif name == "random walk":
        made = np.cumsum(rng.standard_normal((runs, n)), axis=1) / np.sqrt(n / 12)
    else:
        by_minute = {"white": 0.0, "AR .9": 0.9, "AR .97": 0.97}.get(name, 0.9)
        made = _ar1(rng, runs, n, by_minute**step_min)
    if name == "integer":
        made = np.round(3 * made) / 3
    elif name == "quantised":
        made = np.round(2 * made) / 2
    return made.reshape(runs, BLOCKS, fine).mean(axis=2).T


def _ar1(rng: np.random.Generator, runs: int, n: int, correlation: float) -> Floats:
    shocks = rng.standard_normal((n, runs))
    made = shocks.copy()
    for step in range(1, n):
        made[step] = correlation * made[step - 1] + np.sqrt(1 - correlation**2) * shocks[step]
    return made.T


def _one_over_f(rng: np.random.Generator, runs: int, n: int) -> Floats:
    """Pink noise, a part of a stretch four times as long; of SD 1 on average."""
    frequency = np.fft.rfftfreq(4 * n)
    weight = np.zeros_like(frequency)
    weight[1:] = frequency[1:] ** -0.5
    spectrum = (rng.standard_normal((runs, len(weight))) + 1j * rng.standard_normal((runs, len(weight)))) * weight
    made = np.fft.irfft(spectrum, axis=1)[:, :n]
    return made / made.std()
