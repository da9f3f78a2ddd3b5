"""Other tests of growth, for `benchmarks.verdict_power`: each gives one-sided 1 % bounds of the growth over the trial.

FAIL when the lower bound is above the budget, PASS when the upper bound is below it, else UNKNOWN. All take the same
blocks: values [blocks] at the times `part` [blocks], from 0 to 1.
"""

import math
from collections.abc import Callable

import numpy as np

from assertions import stats
from assertions.rows import Floats

Bounds = tuple[float, float]
Z = stats.normal_quantile(1 - stats.ALPHA)
RESAMPLES = 100


def ols(part: Floats, values: Floats) -> Bounds:
    """Least squares with a t interval."""
    centred = part - part.mean()
    spread = float(centred @ centred)
    slope = float(centred @ values) / spread
    left = values - values.mean() - slope * centred
    margin = stats.t_quantile(1 - stats.ALPHA, len(part) - 2) * math.sqrt(float(left @ left) / (len(part) - 2) / spread)
    return slope - margin, slope + margin


def eight_means(part: Floats, values: Floats) -> Bounds:
    """Least squares through the means of eight equal parts, with a t interval."""
    parts = np.array_split(np.arange(len(part)), 8)
    return ols(np.array([part[each].mean() for each in parts]), np.array([values[each].mean() for each in parts]))


def newey_west(part: Floats, values: Floats) -> Bounds:
    """Least squares with the error of Newey and West 1987: Bartlett weights, 4 (n / 100)^(2/9) lags."""
    centred = part - part.mean()
    spread = float(centred @ centred)
    slope = float(centred @ (values - values.mean())) / spread
    scores = centred * (values - values.mean() - slope * centred)
    lags = int(4 * (len(part) / 100) ** (2 / 9))
    variance = float(scores @ scores)
    variance += 2 * sum((1 - k / (lags + 1)) * float(scores[k:] @ scores[:-k]) for k in range(1, lags + 1))
    margin = Z * math.sqrt(max(variance, 0.0)) / spread
    return slope - margin, slope + margin


def mann_kendall(part: Floats, values: Floats) -> Bounds:
    """Sen's slope with the interval of Mann and Kendall, its variance corrected by Hamed and Rao 1998."""
    n = len(part)
    slopes = np.sort(_slopes(part, values))
    detrended = values - stats.theil_sen(part, values) * part
    ranks = np.argsort(np.argsort(detrended)).astype(np.float64)
    ranks -= ranks.mean()
    power = float(ranks @ ranks)
    correction = 1.0
    for lag in range(1, n - 1):
        correlation = float(ranks[lag:] @ ranks[:-lag]) / power
        if abs(correlation) > 1.96 / math.sqrt(n):
            correction += 2 / (n * (n - 1) * (n - 2)) * (n - lag) * (n - lag - 1) * (n - lag - 2) * correlation
    half = Z * math.sqrt(n * (n - 1) * (2 * n + 5) / 18 * max(correction, 0.05))
    low, high = ((len(slopes) - half) / 2, (len(slopes) + half) / 2)
    return float(slopes[max(0, int(low))]), float(slopes[min(len(slopes) - 1, math.ceil(high))])


def block_bootstrap(part: Floats, values: Floats) -> Bounds:
    """Sen's slope with a moving-block bootstrap of its residuals, blocks of a twelfth of the trial."""
    rng, n = np.random.default_rng(0), len(part)
    slope = stats.theil_sen(part, values)
    residual, length = values - slope * part, max(2, n // 12)
    first, second = np.triu_indices(n, 1)
    runs = part[second] - part[first]
    starts = rng.integers(0, n - length + 1, (RESAMPLES, -(-n // length)))
    drawn = residual[(starts[:, :, None] + np.arange(length)).reshape(RESAMPLES, -1)[:, :n]]
    shifts = np.median((drawn[:, second] - drawn[:, first]) / runs, axis=1)
    margin = Z * float(shifts.std())
    return slope - margin, slope + margin


def _slopes(part: Floats, values: Floats) -> Floats:
    first, second = np.triu_indices(len(part), 1)
    slopes: Floats = (values[second] - values[first]) / (part[second] - part[first])
    return slopes


PEERS: dict[str, Callable[[Floats, Floats], Bounds]] = {
    "least squares": ols,
    "t through 8 means": eight_means,
    "Newey-West": newey_west,
    "Mann-Kendall, Hamed-Rao": mann_kendall,
    "block bootstrap": block_bootstrap,
}
