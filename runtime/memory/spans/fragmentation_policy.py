"""Advice on fragmentation, and how often to measure it. Fragmentation is 1 - largest free piece / free bytes.

    0 ---- NONE ---- 0.3 ---- MERGE ---- 0.7 ---- DEFRAG ---- 1

The advice rises at a threshold, and falls again only SLACK below it. Extents merge holes at once; MERGE gives the spare
runs of size classes back to them.
"""

from enum import IntEnum

MERGE_FROM = 0.3
DEFRAG_FROM = 0.7
SLACK = 0.05
_SAMPLE_EVERY_MAX = 1024


class Advice(IntEnum):
    """Actions against fragmentation, in order of cost."""

    NONE = 0
    MERGE = 1
    DEFRAG = 2


class FragmentationPolicy:
    """Holds the latest advice."""

    def __init__(self) -> None:
        self.advice = Advice.NONE

    def advise(self, fragmentation: float) -> Advice:
        """Return the advice for the fragmentation that was measured now."""
        self.advice = max(_band(fragmentation), min(self.advice, _band(fragmentation + SLACK)))
        return self.advice


def _band(fragmentation: float) -> Advice:
    if fragmentation >= DEFRAG_FROM:
        return Advice.DEFRAG
    return Advice.MERGE if fragmentation >= MERGE_FROM else Advice.NONE


class Sampler:
    """Decides at which allocations to measure, since that walks over all holes: at every one after the advice has
    changed, and half as often after each measurement that changed nothing."""

    def __init__(self) -> None:
        self._every = self._left = 1

    def due(self) -> bool:
        """Count one allocation. Return True when it is time to measure."""
        self._left -= 1
        return self._left <= 0

    def sampled(self, changed: bool) -> None:
        """A measurement was made; `changed` says whether the advice changed."""
        self._every = 1 if changed else min(2 * self._every, _SAMPLE_EVERY_MAX)
        self._left = self._every
