"""Statistics of the judges. Each function is exact where it can be and says its error rate.

ALPHA is the one-sided chance that a judge says FAIL exactly at the limit, for independent samples. Real samples are
correlated, so the true rates are simulated (`python -m benchmarks.verdict_power`).
"""

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

ALPHA = 0.01
POWER = 0.9  # "smallest visible" means detected in nine runs of ten


def theil_sen(x: ArrayLike, y: ArrayLike) -> float:
    """The median of all pairwise slopes. It is reported beside the interval, because one outlier does not move it."""
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    first, second = np.triu_indices(len(xs), 1)
    return float(np.median((ys[second] - ys[first]) / (xs[second] - xs[first])))


def binomial_floor(quantile: float, over: int = 0, alpha: float = ALPHA) -> int:
    """The smallest n for which "the quantile is under the limit" can be claimed with `over` values above it.

    P(at most `over` of n lie above | share above = 1 - quantile) <= alpha. MLPerf's early stopping: 459, 662, 2010 for
    0, 1, 10 above P99.
    """
    from scipy.special import bdtr

    low, high = over, over + 1
    while bdtr(over, high, 1 - quantile) > alpha:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bdtr(over, middle, 1 - quantile) <= alpha else (middle, high)
    return high


def over_allowed(n: int, quantile: float, alpha: float = ALPHA) -> int:
    """The number of n values that may lie above the limit for a PASS; -1 when n is below `binomial_floor`."""
    from scipy.special import bdtr

    counts = np.arange(int(n * (1 - quantile)) + 2)
    return int(np.searchsorted(bdtr(counts, n, 1 - quantile), alpha, side="right")) - 1


def over_tolerated(n: int, quantile: float, alpha: float = ALPHA) -> int:
    """The largest number of n values above the limit that is not yet a FAIL: P(this many or more) <= alpha."""
    from scipy.special import bdtrc

    counts = np.arange(n + 1)
    return int(np.argmax(bdtrc(counts, n, 1 - quantile) <= alpha)) if n else 0


def quantile_ranks(n: int, quantile: float, alpha: float = ALPHA) -> tuple[int, int]:
    """The 1-based ranks of the ordered values that enclose a quantile, one-sided alpha at each end.

    Rank 0 or n + 1 means that n values do not bound this end.
    """
    from scipy.special import bdtr

    ranks = np.arange(n)
    cumulative = bdtr(ranks, n, quantile)
    low = int(np.searchsorted(cumulative, alpha, side="right"))  # P(fewer than `low` values lie below) <= alpha
    high = int(np.searchsorted(cumulative, 1 - alpha, side="left")) + 1
    return low, high


def quantile_error(quantile: float) -> float:
    """The standard error of a quantile of one normal value of SD 1; of n values it is that over sqrt(n)."""
    z = normal_quantile(quantile)
    return math.sqrt(quantile * (1 - quantile)) * math.sqrt(2 * math.pi) * math.exp(z * z / 2)


def quantile_interval(values: ArrayLike, quantile: float = 0.5, alpha: float = ALPHA) -> tuple[float, float]:
    """The interval of a quantile of values in the order of time, one-sided alpha at each end.

    Neighbouring values are correlated, as latencies in a queue are: n of them count as n (1 - r) / (1 + r), where r is
    the correlation of the ranks of neighbours. Infinite at an end that so few values do not bound.
    """
    found = np.asarray(values, np.float64)
    n = len(found)
    _, place, times = np.unique(found, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(times) - (times + 1) / 2)[place] - (n - 1) / 2  # equal values share a rank
    spread = float(ranks @ ranks)
    correlation = max(0.0, float(ranks[1:] @ ranks[:-1]) / spread) if spread else 0.0
    counted = max(1, int(n * (1 - correlation) / (1 + correlation)))
    low, high = quantile_ranks(counted, quantile, alpha)
    ordered = np.sort(found)
    return (
        float(ordered[int((low - 1) / counted * n)]) if low >= 1 else -math.inf,
        float(ordered[min(n - 1, math.ceil(high / counted * n) - 1)]) if high <= counted else math.inf,
    )


def share_interval(count: int, n: int, alpha: float = ALPHA) -> tuple[float, float]:
    """The Clopper-Pearson interval of a share, one-sided alpha at each end."""
    from scipy.special import betaincinv

    low = 0.0 if count == 0 else float(betaincinv(count, n - count + 1, alpha))
    high = 1.0 if count == n else float(betaincinv(count + 1, n - count, 1 - alpha))
    return low, high


def fisher_more(count: int, n: int, count_before: int, n_before: int) -> float:
    """Fisher's exact test, one-sided: P(at least `count` of n) when both samples have one rate."""
    from scipy.special import gammaln

    def log_choose(whole: float, part: NDArray[np.float64] | float) -> NDArray[np.float64]:
        return np.asarray(gammaln(whole + 1) - gammaln(np.asarray(part) + 1) - gammaln(whole - np.asarray(part) + 1))

    total = count + count_before
    counts = np.arange(count, min(n, total) + 1, dtype=np.float64)
    counts = counts[total - counts <= n_before]
    if not counts.size:
        return 1.0
    logs = log_choose(n, counts) + log_choose(n_before, total - counts) - log_choose(n + n_before, total)
    return min(1.0, float(np.exp(logs).sum()))


def t_quantile(probability: float, df: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def normal_quantile(probability: float) -> float:
    return NormalDist().inv_cdf(probability)
