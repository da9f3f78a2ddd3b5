"""Gaps between tokens, counted in three-digit buckets per window, so that 8 h of streams stay small.

A bucket is named by its lower edge in nanoseconds: a value keeps its 11 leading bits (at least 1024 steps per
octave, under 0.1 % wide), and nothing below `UNIT_NS`. The number in the row is the time, no table is needed.
"""

from collections.abc import Iterable

UNIT_NS = 1_000  # finer than any network clock of ours
_BITS = 11


def bucket(value_ns: int) -> int:
    """Lower edge of the bucket that holds the value, in ns. Negative values cannot be: our own mistake."""
    assert value_ns >= 0, f"a gap of {value_ns} ns: the clock is not monotonic"
    units = value_ns // UNIT_NS
    shift = max(0, units.bit_length() - _BITS)
    return (units >> shift << shift) * UNIT_NS


class GapHistogram:
    """Counts by (load, bucket) since `start_ns`. `turn()` hands them over when `width_ns` has passed."""

    def __init__(self, start_ns: int, width_ns: int = 10_000_000_000) -> None:
        self.start_ns = start_ns
        self.width_ns = width_ns
        self._counts: dict[str, dict[int, int]] = {}
        """By load, and lower edge in units."""

    def add(self, load: str, gap_ns: int, n: int = 1) -> None:
        """`n` gaps of this length."""
        self.add_all(load, (gap_ns,), n)

    def add_all(self, load: str, gaps_ns: Iterable[int], n: int) -> None:
        """`n` gaps of each of these lengths."""
        counts = self._counts.get(load)
        if counts is None:
            counts = self._counts[load] = {}
        for gap_ns in gaps_ns:  # `bucket`, without a call: it is done for each token of a run
            assert gap_ns >= 0, f"a gap of {gap_ns} ns: the clock is not monotonic"
            units = gap_ns // UNIT_NS
            shift = units.bit_length() - _BITS
            if shift > 0:
                units = units >> shift << shift
            counts[units] = counts.get(units, 0) + n

    def rotate(self, now_ns: int, cut: bool = False) -> list[dict[str, object]]:
        """Rows (`hist` lines of the spool) of the window that is over, and start the next; [] while it is not.

        With `cut` the window ends now, whatever its width: a run's end must not lose its last seconds, nor a phase its
        first ones to a window that began before it.
        """
        return [
            {"e": "hist", "t_ns": start_ns, "width_ns": width_ns, "load": load, "metric": metric,
             "bucket": edge, "n": n}
            for start_ns, width_ns, load, metric, edge, n in self.rotate_rows(now_ns, cut)
        ]  # fmt: skip

    def rotate_rows(self, now_ns: int, cut: bool = False) -> list[tuple[int, int, str, str, int, int]]:
        """The same as rows of table hist."""
        if now_ns - self.start_ns < self.width_ns and not cut:
            return []
        start_ns, counts = self.start_ns, self._counts
        width_ns = now_ns - start_ns if cut else (now_ns - start_ns) // self.width_ns * self.width_ns
        self.start_ns, self._counts = start_ns + width_ns, {}
        return [
            (start_ns, width_ns, load, "itl", units * UNIT_NS, n)
            for load, found in sorted(counts.items())
            for units, n in sorted(found.items())
        ]
