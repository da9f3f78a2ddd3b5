"""Arrivals that are known before the run: a trace comes as it was recorded, so many requests in each of its seconds.

    counts   2 0 0 5 1 ...       of second 0, 1, 2, ... of load time, which stands still while the load is paused

Nothing is known beyond the last of them, so nothing is sure to come there.
"""

import bisect
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from assertions.intervals import Interval, merged


@dataclass(frozen=True)
class ArrivalCounts:
    """The arrivals of one load in each second."""

    counts: tuple[int, ...]

    @classmethod
    def read(cls, text: str | None) -> "ArrivalCounts | None":
        """What plan.json holds: the counts as words, or nothing for a load that is drawn."""
        return None if text is None else cls(tuple(int(word) for word in text.split()))

    def by(self, t_s: float) -> float:
        """How many have come by then; those of a second that is not over in proportion."""
        whole = min(max(0, int(t_s)), len(self.counts))
        part = t_s - whole if 0 <= whole < len(self.counts) else 0.0
        return self._before[whole] + (self.counts[whole] * part if part > 0 else 0.0)

    def among(self, intervals: Iterable[Interval]) -> float:
        """How many come in these stretches of load time."""
        return sum(self.by(end_s) - self.by(start_s) for start_s, end_s in merged(intervals))

    def sure(self, intervals: Iterable[Interval]) -> int:
        """Only those whose whole second lies in a stretch."""
        found = 0
        for start_s, end_s in merged(intervals):
            last = min(int(end_s), len(self.counts))
            found += self._before[last] - self._before[min(math.ceil(start_s), last)]
        return found

    @cached_property
    def _before(self) -> tuple[int, ...]:
        return (0, *itertools.accumulate(self.counts))


def seconds_until(curves: Sequence[ArrivalCounts], rate: float, since_s: float, count: float) -> float:
    """Seconds from `since_s` until the curves, and others at this rate, have brought so many; infinite: never known.

    Of a curve the seconds that are over by then, and began after `since_s`: it is never said too early.
    """
    if not curves or count <= 0:
        return count / rate if rate > 0 else (math.inf if count > 0 else 0.0)
    first = math.ceil(since_s)
    last = max(first, *(len(curve.counts) for curve in curves))

    def come(second: int) -> float:
        return rate * (second - since_s) + sum(curve.sure([(first, second)]) for curve in curves)

    reached = bisect.bisect_left(range(first, last + 1), count, key=come) + first
    if reached <= last:
        return reached - since_s
    return last - since_s + (count - come(last)) / rate if rate > 0 else math.inf
