"""What to do about fragmentation, and how often to look: the seed's bands, with the hysteresis that it leaves out.

    0 ---- none ---- 0.3 ---- merge ---- 0.7 ---- defrag ---- 1      up at the line, down only `slack` below it

Merging is free and done at once by extents; what is left to merge are the spare runs of size classes.
"""

from dataclasses import dataclass
from enum import IntEnum


class Advice(IntEnum):
    """In order of cost."""

    NONE = 0
    MERGE = 1
    DEFRAG = 2


@dataclass(slots=True)
class FragmentationPolicy:
    """Where the lines are, as shares of the free bytes, and in which band we are."""

    merge_from: float = 0.3
    defrag_from: float = 0.7
    slack: float = 0.05
    advice: Advice = Advice.NONE

    def __post_init__(self) -> None:
        floor, between, ceiling = self.merge_from - self.slack, self.defrag_from - self.slack, self.defrag_from
        if not (0 < floor <= self.merge_from < between <= ceiling <= 1):
            raise ValueError(f"{self}: give 0 < merge_from < defrag_from <= 1 that lie more than slack apart")

    def see(self, fragmentation: float) -> Advice:
        """One more look; the advice from now on."""
        rising = self._band(fragmentation)
        falling = self._band(fragmentation + self.slack)
        self.advice = max(rising, min(self.advice, falling))
        return self.advice

    def _band(self, fragmentation: float) -> Advice:
        if fragmentation >= self.defrag_from:
            return Advice.DEFRAG
        return Advice.MERGE if fragmentation >= self.merge_from else Advice.NONE


class Sampler:
    """Says at which events to look: each `every`th, twice as rarely after each look that found nothing new, and at
    every one again as soon as something changes. Looking costs a walk over the holes."""

    def __init__(self, every_max: int = 1024) -> None:
        self.every = 1
        self._every_max = every_max
        self._left = 1

    def due(self) -> bool:
        """One event; whether to look now."""
        self._left -= 1
        return self._left <= 0

    def looked(self, changed: bool) -> None:
        """The look was taken."""
        self.every = 1 if changed else min(2 * self.every, self._every_max)
        self._left = self.every
