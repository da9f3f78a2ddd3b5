"""A histogram of gaps between tokens for each time window, which stays small over hours of streams.

A bucket is named by its lower edge in ns. A value keeps its 11 leading bits, so buckets are less than 0.1 % wide, and
nothing below UNIT_NS. The name of a bucket is a time, so no table of edges is needed.
"""

from collections.abc import Iterable

UNIT_NS = 1_000  # finer than the accuracy of our clocks
BITS = 11


class GapHistogram:
    """Counts of gaps by (load, bucket) since `start_ns`. `rotate` returns them when `width_ns` has passed."""

    def __init__(self, start_ns: int, width_ns: int = 10_000_000_000) -> None:
        self.start_ns = start_ns
        self.width_ns = width_ns
        self._counts: dict[str, dict[int, int]] = {}
        """Counts by load and by lower edge in units of UNIT_NS."""

    def add(self, load: str, gap_ns: int, n: int = 1) -> None:
        """Count `n` gaps of this length."""
        self.add_all(load, (gap_ns,), n)

    def add_all(self, load: str, gaps_ns: Iterable[int], n: int) -> None:
        """Count `n` gaps of each of these lengths."""
        counts = self._counts.get(load)
        if counts is None:
            counts = self._counts[load] = {}
        for gap_ns in gaps_ns:
            assert gap_ns >= 0, f"a gap of {gap_ns} ns: the clock is not monotonic"
            units = gap_ns // UNIT_NS
            shift = units.bit_length() - BITS
            if shift > 0:
                units = units >> shift << shift
            counts[units] = counts.get(units, 0) + n

    def rotate(self, now_ns: int, cut: bool = False) -> list[dict[str, object]]:
        """Spool lines (`hist`) of the window when it is over, else []. The next window starts at its end.

        With `cut` the window ends now. The end of a run keeps its last seconds that way, and a window never lies in two
        phases.
        """
        return [
            {"e": "hist", "t_ns": start_ns, "width_ns": width_ns, "load": load, "metric": metric,
             "bucket": edge, "n": n}
            for start_ns, width_ns, load, metric, edge, n in self.rotate_rows(now_ns, cut)
        ]  # fmt: skip

    def rotate_rows(self, now_ns: int, cut: bool = False) -> list[tuple[int, int, str, str, int, int]]:
        """Rows of table hist of the window when it is over, like `rotate`."""
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
