"""Samples of a trial, cut into at most 96 equal blocks with one value each.

    trial    |----------- period ----------|----------- period ----------|
    blocks   | 0  | 1  | 2  | 3  | 4  | 5  | 0  | 1  |====| 3  | 4  | 5  |      number: phase of the load
                                                       ^ a fault window: this block is left out

Time is the time of the load, which stands still in a quiesce. Of each block the phase of the load is known, and whether
the server has started again before it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from assertions.intervals import Interval
from assertions.rows import Floats, Mask

BLOCKS = 96
PHASES_MAX = 48
SAMPLES_MIN = 2
"""Samples of a block, at least: shorter blocks would have none now and then."""
COVERAGE_MIN = 0.5
"""The share of its samples that a block must keep."""
BlockValue = Callable[[Floats, Floats], float]
"""Makes one value of a block's samples and their weights, two arrays of shape [samples]."""


@dataclass(frozen=True)
class SubBlocks:
    """Blocks that kept enough samples, in the order of time."""

    at: Floats
    """[blocks]: the number of each block, counted from the start of the trial."""
    values: Floats
    """[blocks]: the value of the samples kept."""
    phase: NDArray[np.int64]
    """[blocks]: the phase of the load, 0 for all where the load has no period."""
    start_ns: Floats
    """[blocks]: when each block began, in time of the run."""
    width_ns: float
    starts: tuple[int, ...] = ()
    """Indices of the first block behind each restart of the server."""
    left_out: int = 0
    covariates: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """[blocks, n]: what else moves the series, such as the offered load. [0, 0] when nothing is known."""

    @property
    def span_ns(self) -> float:
        """The time of the load from the first block's start to the last one's end."""
        return (float(self.at[-1]) - float(self.at[0]) + 1) * self.width_ns

    @property
    def part(self) -> Floats:
        """[blocks]: the middle of each block as a share of the span."""
        middles: Floats = (self.at - self.at[0] + 0.5) / (self.at[-1] - self.at[0] + 1)
        return middles

    @property
    def kept_ns(self) -> float:
        """The length of all blocks together."""
        return len(self.at) * self.width_ns

    def began_ns(self, part: float) -> int:
        """The start, in time of the run, of the block that this share of the span falls into."""
        return int(self.start_ns[min(int(np.searchsorted(self.part, part)), len(self.at) - 1)])


@dataclass(frozen=True)
class Cut:
    """The cut of a trial into `count` blocks; none for a trial without length."""

    edges_ns: Floats
    """[2 x intervals]: start and end of each interval of the trial, in time of the run."""
    load_ns: Floats
    """[2 x intervals]: the time of the load at each edge."""
    width_ns: float
    phases: int
    count: int

    @classmethod
    def of(cls, trial: Sequence[Interval], period_ns: float | None, least_ns: float) -> "Cut":
        """Cut the intervals of `trial` (ns) into blocks of at least `least_ns`.

        `period_ns` is the period of the load: blocks are whole parts of it, or whole periods.
        """
        if not sum(end - start for start, end in trial) > 0:
            return cls(np.zeros(2), np.zeros(2), 0.0, 1, 0)
        edges = np.array(trial, np.float64).ravel()
        load_ns = np.cumsum(np.diff(edges, prepend=edges[0]) * (np.arange(len(edges)) % 2))  # no time between trials
        width_ns, phases = _width(float(load_ns[-1]), period_ns, least_ns)
        return cls(edges, load_ns, width_ns, phases, max(1, int(load_ns[-1] / width_ns + 0.01)))

    def blocks_of(self, t_ns: Floats) -> NDArray[np.int64]:
        """[samples]: the block of each time; -1 outside the trial and behind the last whole block."""
        if not self.count:
            return np.full(len(t_ns), -1)
        block = np.floor(np.interp(t_ns, self.edges_ns, self.load_ns) / self.width_ns).astype(np.int64)
        pairs = self.edges_ns.reshape(-1, 2)
        inside = (block < self.count) & np.any([(t_ns >= start) & (t_ns < end) for start, end in pairs], axis=0)
        return np.where(inside, block, -1)

    def counts(self, t_ns: Floats) -> Floats:
        """[count]: how many of the times lie in each block."""
        block = self.blocks_of(t_ns)
        return np.bincount(block[block >= 0], minlength=self.count).astype(np.float64)


def least_width_ns(t_ns: Floats) -> float:
    """The least width (ns) of a block of a series that is sampled at these times."""
    return SAMPLES_MIN * float(np.median(np.diff(t_ns))) if len(t_ns) > 1 else 0.0


def mean(values: Floats, weights: Floats) -> float:
    """The mean of equally weighted values; small changes of a large value keep their digits."""
    return float(values[0] + (values - values[0]).mean())


def lowest(values: Floats, weights: Floats) -> float:
    """The least value, which of a gauge of work in progress is the level at rest."""
    return float(values.min())


def quantile(q: float) -> BlockValue:
    """The median-unbiased estimate of a quantile (Hyndman and Fan 1996, type 8); values count by their weights."""

    def value(values: Floats, weights: Floats) -> float:
        order = np.argsort(values, kind="stable")
        cumulative, ordered = np.cumsum(weights[order]), values[order]
        n = float(cumulative[-1])
        rank = min(max(q * (n + 1 / 3) + 1 / 3, 1.0), n)
        low, high = (ordered[np.searchsorted(cumulative, each - 1e-9)] for each in (math.floor(rank), math.ceil(rank)))
        return float(low + (rank - math.floor(rank)) * (high - low))

    return value


def sub_blocks(
    cut: Cut,
    t_ns: Floats,
    values: Floats,
    kept: Mask,
    restarts_ns: Sequence[float] = (),
    value: BlockValue = mean,
    weights: Floats | None = None,
) -> SubBlocks:
    """Make blocks of the samples (`t_ns`, `values`, `kept`, `weights`: [samples]) that lie in the cut trial."""
    block = cut.blocks_of(t_ns)
    given = np.bincount(block[block >= 0], minlength=cut.count)
    use = np.flatnonzero((block >= 0) & kept)
    use = use[np.argsort(block[use], kind="stable")]
    left = np.bincount(block[use], minlength=cut.count)
    at = np.flatnonzero((left > 0) & (left >= COVERAGE_MIN * given))
    ends = np.cumsum(left)
    mine, weight = values[use], (np.ones(len(values)) if weights is None else weights)[use]
    made = [value(mine[end - n : end], weight[end - n : end]) for end, n in zip(ends[at], left[at], strict=True)]
    start_ns = np.interp(at * cut.width_ns, cut.load_ns, cut.edges_ns)
    first_ns, last_ns = cut.edges_ns[0], cut.edges_ns[-1]
    starts = {int(np.searchsorted(start_ns, each)) for each in restarts_ns if first_ns < each < last_ns}
    return SubBlocks(
        at.astype(np.float64),
        np.array(made, np.float64),
        at % cut.phases,
        start_ns,
        cut.width_ns,
        tuple(sorted(each for each in starts if 0 < each < len(at))),
        cut.count - len(at),
    )


def _width(span_ns: float, period_ns: float | None, least_ns: float) -> tuple[float, int]:
    """The length of a block (ns), at least `least_ns`, and the number of phases of the load."""
    if period_ns is None or span_ns < 2 * period_ns:
        return max(span_ns / BLOCKS, least_ns), 1
    if least_ns > period_ns:
        return math.ceil(least_ns / period_ns) * period_ns, 1
    finest = int(period_ns / least_ns) if least_ns > 0 else PHASES_MAX
    phases = max(1, min(PHASES_MAX, finest, round(BLOCKS * period_ns / span_ns)))
    return period_ns / phases, phases
