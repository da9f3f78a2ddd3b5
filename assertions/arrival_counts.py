"""ArrivalCounts holds the arrivals of a trace in each second, which are known before the run.

    counts   2 0 0 5 1 ...       in second 0, 1, 2, ... of load time, which stands still while the load is paused

Nothing is known beyond the last second, so no arrival is certain there.
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
    """The number of arrivals of one load in each second."""

    counts: tuple[int, ...]

    @classmethod
    def read(cls, text: str | None) -> "ArrivalCounts | None":
        """Read the counts from plan.json: numbers separated by spaces, or None for a load that has no trace."""
        return None if text is None else cls(tuple(int(word) for word in text.split()))

    def by(self, t_s: float) -> float:
        """The number of arrivals before `t_s` seconds; a second that is not over counts in proportion."""
        whole = min(max(0, int(t_s)), len(self.counts))
        part = t_s - whole if 0 <= whole < len(self.counts) else 0.0
        return self._before[whole] + (self.counts[whole] * part if part > 0 else 0.0)

    def among(self, intervals: Iterable[Interval]) -> float:
        """The expected number of arrivals in these intervals (seconds of load time)."""
        return sum(self.by(end_s) - self.by(start_s) for start_s, end_s in merged(intervals))

    def sure(self, intervals: Iterable[Interval]) -> int:
        """The certain number of arrivals: those of seconds that lie completely in an interval."""
        found = 0
        for start_s, end_s in merged(intervals):
            last = min(int(end_s), len(self.counts))
            found += self._before[last] - self._before[min(math.ceil(start_s), last)]
        return found

    @cached_property
    def _before(self) -> tuple[int, ...]:
        return (0, *itertools.accumulate(self.counts))


def seconds_until(curves: Sequence[ArrivalCounts], rate: float, since_s: float, count: float) -> float:
    """Seconds from `since_s` until traces, and other loads at `rate` per second, have brought `count` arrivals.

    A trace counts with whole seconds that began after `since_s`, so the result is never too early. It is infinite when
    the arrivals are not certain to reach `count`.
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
