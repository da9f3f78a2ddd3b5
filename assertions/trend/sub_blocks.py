"""A sampled series, cut into about 96 equal blocks of the trial.

    trial    |----------- period ----------|----------- period ----------|
    blocks   | 0  | 1  | 2  | 3  | 4  | 5  | 0  | 1  |====| 3  | 4  | 5  |      number: phase of the load
                                                       ^ a fault window: this block is left out

Time is the time of the load, which stands still in a quiesce. Of each block the phase of the load is known, and whether
the server has started again before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class SubBlocks:
    """Blocks that kept enough samples, in the order of time."""

    at: Floats
    """[blocks]: the number of each block, counted from the start of the trial."""
    values: Floats
    """[blocks]: the mean, or the lowest value, of the samples kept."""
    phase: NDArray[np.int64]
    """[blocks]: the phase of the load, 0 for all where the load has no period."""
    start_ns: Floats
    """[blocks]: when each block began, in time of the run."""
    width_ns: float
    starts: tuple[int, ...] = ()
    """Indices of the first block behind each restart of the server."""
    left_out: int = 0

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


def sub_blocks(
    t_ns: Floats,
    values: Floats,
    kept: Mask,
    trial: Sequence[Interval],
    period_ns: float | None,
    restarts_ns: Sequence[float] = (),
    lowest: bool = False,
) -> SubBlocks:
    """Cut the samples (`t_ns`, `values`, `kept`: [samples]) of the intervals of `trial`, in ns, into blocks.

    A block is the mean of its kept samples, or with `lowest` the least. `period_ns` is the period of the load; blocks
    are whole parts of it. A trial without length has no blocks.
    """
    if not sum(end - start for start, end in trial) > 0:
        none = np.zeros(0)
        return SubBlocks(none, none, np.zeros(0, np.int64), none, 0.0)
    edges = np.array(trial, np.float64).ravel()
    load_ns = np.cumsum(np.diff(edges, prepend=edges[0]) * (np.arange(len(edges)) % 2))  # no time passes between trials
    sample_ns = float(np.median(np.diff(t_ns))) if len(t_ns) > 1 else 0.0
    width_ns, phases = _width(float(load_ns[-1]), period_ns, SAMPLES_MIN * sample_ns)
    count = max(1, int(load_ns[-1] / width_ns + 0.01))
    block = np.floor(np.interp(t_ns, edges, load_ns) / width_ns).astype(np.int64)
    inside = (block < count) & np.any([(t_ns >= start) & (t_ns < end) for start, end in trial], axis=0)
    given = np.bincount(block[inside], minlength=count)
    use = inside & kept
    left = np.bincount(block[use], minlength=count)
    at = np.flatnonzero((left > 0) & (left >= COVERAGE_MIN * given))
    start_ns = np.interp(at * width_ns, load_ns, edges)
    starts = {int(np.searchsorted(start_ns, each)) for each in restarts_ns if edges[0] < each < edges[-1]}
    return SubBlocks(
        at.astype(np.float64),
        _values(block[use], values[use], count, lowest)[at],
        at % phases,
        start_ns,
        width_ns,
        tuple(sorted(each for each in starts if 0 < each < len(at))),
        count - len(at),
    )


def _values(block: NDArray[np.int64], values: Floats, count: int, lowest: bool) -> Floats:
    """One value for each block [count]; NaN or infinity where it has no sample."""
    if lowest:
        least = np.full(count, np.inf)
        np.minimum.at(least, block, values)
        return least
    base = values[0] if len(values) else 0.0  # small changes of a large value keep their digits
    with np.errstate(invalid="ignore"):
        means: Floats = base + np.bincount(block, values - base, minlength=count) / np.bincount(block, minlength=count)
    return means


def _width(span_ns: float, period_ns: float | None, least_ns: float) -> tuple[float, int]:
    """The length of a block (ns), at least `least_ns`, and the number of phases of the load."""
    if period_ns is None or span_ns < 2 * period_ns:
        return max(span_ns / BLOCKS, least_ns), 1
    finest = int(period_ns / least_ns) if least_ns > 0 else PHASES_MAX
    phases = max(1, min(PHASES_MAX, finest, round(BLOCKS * period_ns / span_ns)))
    return period_ns / phases, phases
