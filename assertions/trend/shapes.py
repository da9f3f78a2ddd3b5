"""Shapes that a series may have beside a straight line: growth that ended, growth that began late, and waves.

line     grows from the first block to the last          step     one rise, at a block
hinge    flat, then grows to the end                     warm     saturates: 1 - exp(-t / tau), anew after a restart
wave     goes up and down with an undeclared period      stop     grows, then is flat to the end
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from assertions.rows import Floats

EDGE = 6
"""Blocks at either end in which no step is looked for: so few blocks show no level."""
TAUS = (0.02, 0.04, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3)
"""Time constants of a warm-up, as shares of the trial. A slower one has not levelled off when the trial ends."""
PERIODS = np.geomspace(0.15, 2, 16)
"""Periods of a wave, as shares of the trial."""
PHASES = np.arange(8) / 16
LEVELLED = ("step", "warm", "stop")


class Shape(NamedTuple):
    """One shape and where it turns, as a share of the trial: a step, an onset, an end, a time constant or a period."""

    kind: str
    at: float


def shapes(part: Floats, starts: Sequence[int]) -> tuple[tuple[Shape, ...], Floats]:
    """The shapes and their columns [blocks, shapes], the line first. `part` [blocks] is the time, from 0 to 1.

    `starts` holds the first block behind each restart: a server warms up again there.
    """
    n, since = len(part), _since_start(part, starts)
    made: list[tuple[Shape, Floats]] = [(Shape("line", 0.0), part)]
    for block in range(EDGE, n - EDGE + 1):
        above = (np.arange(n) >= block).astype(np.float64)
        inside = above.copy()
        inside[block] = 0.5  # the step lies in the middle of this block
        made += [(Shape("step", float(part[block])), column) for column in (above, inside)]
    made += [(Shape("warm", tau), 1 - np.exp(-since / tau)) for tau in TAUS]
    made += [(Shape("hinge", at), np.maximum(part - at, 0.0)) for at in np.arange(0.1, 0.92, 0.02).tolist()]
    made += [(Shape("stop", at), np.minimum(part, at)) for at in np.arange(0.1, 0.76, 0.04).tolist()]
    made += [
        (Shape("wave", period), np.cos(2 * np.pi * (part / period - phase)))
        for period in PERIODS.tolist()
        for phase in PHASES.tolist()
    ]
    return tuple(shape for shape, _ in made), np.column_stack([column for _, column in made])


def _since_start(part: Floats, starts: Sequence[int]) -> Floats:
    since = part.copy()
    for block in starts:
        since[block:] = part[block:] - part[block]
    return since
