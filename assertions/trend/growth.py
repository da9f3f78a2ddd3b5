"""Growth of a series over a trial, judged against a budget.

FAIL     both lines (noise.py) grow faster than the budget, and no shape that has ended or that comes back explains the
         series as well as growth that goes on
PASS     the line keeps the budget, and the last half and the last quarter of the trial look innocent too
UNKNOWN  all else, with the reason: levelled off, began late, comes and goes, remembers too long, or too little is seen

The constants were chosen on simulated series and confirmed on others (`python -m benchmarks.verdict_power`).
"""

from dataclasses import dataclass

import numpy as np

from assertions import stats
from assertions.rows import Floats
from assertions.trend.noise import MODES, Fit, fit, low_frequency, whiten
from assertions.trend.shapes import LEVELLED, Shape, shapes
from assertions.trend.sub_blocks import SubBlocks
from assertions.verdict import State

BLOCKS_MIN = 24
"""With fewer blocks a series is not judged."""
REACH = 1.8
"""Standard errors of the AR(1) line between its growth and the lower bound. The other line has a bound of 1 %."""
DEGREES = 20
"""Degrees of freedom of the upper bound: 96 blocks of AR(1) noise hold about so many independent values."""
CORRELATION_MAX = 0.96
"""The largest correlation of neighbouring blocks. A series that remembers longer looks like growth by itself."""
CERTAIN = 5.0
"""Standard errors above the budget at which growth is certain whatever the series remembers."""
EXTRA = {"line": 0.0, "step": 1.0, "warm": 1.0, "stop": 1.0, "wave": 2.0, "hinge": 4.0}
"""Log likelihood by which a shape must be ahead of a line to be as good: it chooses where it turns."""
AHEAD = -1.0
"""Log likelihood by which growth must be ahead of each shape that has ended or comes back."""
LATE = 2.0
"""Log likelihood by which a late onset must beat the line to stand against a PASS."""
INNOCENT = 0.75
"""The share of the budget at which the end of the trial may grow for a PASS."""


@dataclass(frozen=True)
class Explained:
    """One shape beside the line: its size in the unit of the series, its error, and how well it explains the series."""

    shape: Shape
    size: float
    error: float
    likelihood: float
    """Log likelihood less EXTRA."""
    correlation: float
    """The correlation of the noise of neighbouring blocks about this shape."""

    def certain(self, budget: float) -> bool:
        """Return True when the noise does not remember long enough to look like growth beyond `budget` by itself."""
        return self.correlation < CORRELATION_MAX or self.size - budget > CERTAIN * self.error

    @property
    def low(self) -> float:
        """The lower bound of the size."""
        return self.size - stats.t_quantile(1 - stats.ALPHA, DEGREES) * self.error


@dataclass(frozen=True)
class Growth:
    """The growth of one series over the span of its blocks, in the unit of the series."""

    line: Explained
    low: float
    high: float
    theil_sen: float
    ended: Explained
    """The best rise that has ended."""
    wave: Explained
    late: Explained
    """The best growth that began late; its size is what it would be over the whole span."""
    half: float
    """The growth of the last half, as if over the whole span."""
    quarter: float
    """The growth of the last quarter less its error, as if over the whole span."""
    residual_sd: float
    """SD of the blocks about the shape that explains them best."""

    def against(self, budget: float, total: bool = False) -> tuple[State, str]:
        """The state of a check that growth over the span stays under `budget`, and the reason: a shape or a doubt.

        Growth that began late breaks a budget by its rate, or with `total` by what it came to until the end.
        """
        if self.low == self.high:  # a series that never changed keeps any budget, also a budget of 0
            return (State.PASS if self.line.size <= budget else State.FAIL), "constant"
        likely = max(self.ended.likelihood, self.wave.likelihood) + AHEAD
        line, late = self.line, self.late
        if self.low > budget and line.certain(budget) and line.likelihood > likely:
            return State.FAIL, "line"
        rate = budget / (1 - late.shape.at) if total else budget
        if late.low > rate and late.certain(rate) and late.likelihood > max(likely, line.likelihood):
            return State.FAIL, "late"
        if self._began_late and late.size > budget:
            return State.UNKNOWN, "wave" if self.wave.likelihood > late.likelihood else "late"
        if max(self.low, self.high) < budget:
            recent = max(self.half, self.quarter) >= INNOCENT * budget
            return (State.UNKNOWN, "recent") if recent else (State.PASS, "line")
        if likely > line.likelihood:
            return State.UNKNOWN, "ended" if self.ended.likelihood >= self.wave.likelihood else "wave"
        return State.UNKNOWN, "memory" if self.low > budget else "interval"

    @property
    def _began_late(self) -> bool:
        raw = self.late.likelihood + EXTRA["hinge"]
        return raw > self.line.likelihood + LATE and raw > self.ended.likelihood and self.late.low > 0


def growth_of(blocks: SubBlocks, modes: int = MODES) -> Growth:
    """The growth of a series. The caller has at least BLOCKS_MIN blocks."""
    return growths_of(blocks, blocks.values[:, None], modes)[0]


def growths_of(blocks: SubBlocks, values: Floats, modes: int = MODES) -> tuple[Growth, ...]:
    """The growth of each series of `values` [blocks, series], all cut into the same blocks.

    `modes` is the number of cosine modes of the second line. Noise that forgets within a block allows more of them.
    """
    values = values - values[0]
    part, count = blocks.part, len(blocks.at)
    levels = np.zeros((count, len(blocks.starts)))
    for column, start in enumerate(blocks.starts):
        levels[start:, column] = 1.0
    if blocks.covariates.size:  # they may vary as slowly as the level behind a restart
        levels = np.hstack([levels, blocks.covariates])
    phases = _phase_columns(blocks)
    base = np.column_stack([np.ones(count), levels, phases])
    kinds, columns = shapes(part, blocks.starts)
    moving = np.flatnonzero(np.ptp(values, axis=0) > 0)
    made = [_constant()] * values.shape[1]
    if len(moving):
        found = fit(blocks.at, base, columns, values[:, moving])
        for one, series in enumerate(moving.tolist()):
            made[series] = _one(blocks, values[:, series], kinds, columns, base, levels, found, one, modes)
    return tuple(made)


def _constant() -> Growth:
    nothing = Explained(Shape("line", 0.0), 0.0, 0.0, 0.0, 0.0)
    return Growth(nothing, 0.0, 0.0, 0.0, nothing, nothing, nothing, 0.0, 0.0, 0.0)


def _one(
    blocks: SubBlocks,
    values: Floats,
    kinds: tuple[Shape, ...],
    columns: Floats,
    base: Floats,
    levels: Floats,
    found: Fit,
    one: int,
    modes: int,
) -> Growth:
    part = blocks.part
    line, ended, wave, late = (_best(kinds, each, found, one) for each in (("line",), LEVELLED, ("wave",), ("hinge",)))
    unphased = _without_phases(blocks, values, base, levels.shape[1], line.correlation)
    slow, slow_error, free = low_frequency(blocks.at, levels, part, unphased[:, None], modes)
    half, _ = _rate_of_end(blocks, levels, unphased, line.correlation, 0.5)
    quarter, quarter_error = _rate_of_end(blocks, levels, unphased, line.correlation, 0.25)
    explained = columns[:, int(np.argmax(found.likelihood[one]))]
    slow_low = float(slow[0] - stats.t_quantile(1 - stats.ALPHA, free) * slow_error[0])
    return Growth(
        line=line,
        low=min(line.size - REACH * line.error, slow_low),
        high=line.size + stats.t_quantile(1 - stats.ALPHA, DEGREES) * line.error,
        theil_sen=stats.theil_sen(part, unphased),
        ended=ended,
        wave=wave,
        late=late,
        half=half,
        quarter=quarter - quarter_error,
        residual_sd=float(_residual(np.column_stack([np.ones(len(part)), levels, explained]), unphased).std()),
    )


def _best(kinds: tuple[Shape, ...], wanted: tuple[str, ...], found: Fit, one: int) -> Explained:
    """The shape of the `wanted` kinds that explains series `one` best. A step, a warm-up, an end and an onset rise."""
    size, likelihood = found.size[one], found.likelihood[one]
    rated = [
        likelihood[at] - EXTRA[kind] if kind in wanted and (size[at] > 0 or kind in ("line", "wave")) else -np.inf
        for at, (kind, _) in enumerate(kinds)
    ]
    at = int(np.argmax(rated))
    error, correlation = float(found.error[one, at]), float(found.correlation[one, at])
    return Explained(kinds[at], float(size[at]), error, float(rated[at]), correlation)


def _phase_columns(blocks: SubBlocks) -> Floats:
    """One column for each phase of the load but the first."""
    known = np.unique(blocks.phase)
    return np.column_stack([np.zeros((len(blocks.at), 0)), *[(blocks.phase == each) * 1.0 for each in known[1:]]])


def _without_phases(blocks: SubBlocks, values: Floats, base: Floats, levels: int, correlation: float) -> Floats:
    """`values` less the profile of the load, estimated beside a line and the levels."""
    phases = base[:, 1 + levels :]
    if not phases.shape[1]:
        return values
    white, _ = whiten(correlation, blocks.at, np.column_stack([base, blocks.part, values]))
    sizes = np.linalg.lstsq(white[:, :-1], white[:, -1], rcond=None)[0]
    profile: Floats = phases @ sizes[1 + levels : 1 + levels + phases.shape[1]]
    return values - profile


def _rate_of_end(
    blocks: SubBlocks, levels: Floats, values: Floats, correlation: float, share: float
) -> tuple[float, float]:
    """The growth of the last `share` of the span and its standard error, as if over the whole span."""
    end = blocks.part > 1 - share
    part = blocks.part[end]
    here = levels[end]
    columns = np.column_stack([part, np.ones(len(part)), here[:, np.ptp(here, axis=0) > 0]])
    white, _ = whiten(correlation, blocks.at[end], np.column_stack([columns, values[end]]))
    x, y = white[:, :-1], white[:, -1]
    left = _residual(x, y)
    variance = np.linalg.pinv(x.T @ x)[0, 0] * float(left @ left) / max(1, len(y) - x.shape[1])
    return float(np.linalg.lstsq(x, y, rcond=None)[0][0]), float(np.sqrt(variance))


def _residual(columns: Floats, values: Floats) -> Floats:
    left: Floats = values - columns @ np.linalg.lstsq(columns, values, rcond=None)[0]
    return left
