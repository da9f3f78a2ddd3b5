"""How much of a trial was enough to be certain that a series grows."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from assertions.trend.growth import BLOCKS_MIN
from assertions.trend.sub_blocks import SubBlocks
from assertions.verdict import State

STEP = 4
"""Blocks by which a shorter trial is tried."""
PERIODS_LEAST = 3
"""Periods of the load without which its profile can't be told from growth."""


def certain_ns(blocks: SubBlocks, state_of: Callable[[SubBlocks], State]) -> int:
    """The end (ns) of the shortest trial that FAILs together with all longer ones; the whole trial FAILs."""
    enough = len(blocks.at)
    least = max(BLOCKS_MIN, PERIODS_LEAST * len(np.unique(blocks.phase)))
    for count in range(enough - STEP, least - 1, -STEP):
        if state_of(_first(blocks, count)) is not State.FAIL:
            break
        enough = count
    return int(blocks.start_ns[enough - 1] + blocks.width_ns)


def _first(blocks: SubBlocks, count: int) -> SubBlocks:
    """The first `count` blocks."""
    return replace(
        blocks,
        at=blocks.at[:count],
        values=blocks.values[:count],
        phase=blocks.phase[:count],
        start_ns=blocks.start_ns[:count],
        starts=tuple(each for each in blocks.starts if each < count),
        covariates=blocks.covariates[:count],
    )
