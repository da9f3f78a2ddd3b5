"""Downsamples a series: each bucket of time keeps its smallest and its largest value."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

POINTS_MAX = 2000


@dataclass(frozen=True)
class Grid:
    """Equal buckets over a time span. A bucket is drawn as two points, in its first and second half."""

    start_s: float
    width_s: float
    buckets: int

    @property
    def x_s(self) -> NDArray[np.float64]:
        halves = np.arange(2 * self.buckets, dtype=np.float64)
        return np.asarray(self.start_s + self.width_s * (0.25 + 0.5 * halves), dtype=np.float64)


def grid(start_s: float, end_s: float, period_s: float) -> Grid:
    """Buckets of two sample periods, which keep every sample, or wider ones for at most POINTS_MAX points."""
    span_s = max(end_s - start_s, period_s)
    buckets = int(np.ceil(span_s / (2 * period_s)))
    buckets = max(1, min(buckets, POINTS_MAX // 2))
    return Grid(start_s, span_s / buckets, buckets)


def min_max(t_s: NDArray[np.float64], values: NDArray[np.float64], to: Grid) -> NDArray[np.float64]:
    """The minimum and maximum of each bucket in order of time, shape [2 * buckets]; NaN without a sample.

    A bucket with one sample holds it once, in the half in which it lies, so gaps remain visible.
    """
    folded = np.full(2 * to.buckets, np.nan)
    known = ~np.isnan(values)
    t_s, values = t_s[known], values[known]
    place = (t_s - to.start_s) / to.width_s
    inside = (place >= 0) & (place <= to.buckets)
    t_s, values, place = t_s[inside], values[inside], place[inside]
    order = np.argsort(t_s, kind="stable")
    values, place = values[order], place[order]
    bucket = np.minimum(place.astype(int), to.buckets - 1)
    starts = np.flatnonzero(np.r_[True, np.diff(bucket) > 0]) if len(bucket) else np.array([], dtype=int)
    for begin, end in zip(starts, np.r_[starts[1:], len(bucket)], strict=True):
        number = 2 * bucket[begin]
        if end - begin == 1:
            folded[number + (place[begin] - bucket[begin] >= 0.5)] = values[begin]
            continue
        low, high = int(np.argmin(values[begin:end])), int(np.argmax(values[begin:end]))
        first, second = (low, high) if low <= high else (high, low)
        folded[number], folded[number + 1] = values[begin + first], values[begin + second]
    return folded
