"""Growth of a sampled series over a trial: does it go on, has it levelled off, or can nobody tell."""

from assertions.trend.certain import certain_ns
from assertions.trend.growth import Growth, growth_of
from assertions.trend.sub_blocks import Cut, SubBlocks, least_width_ns, lowest, mean, quantile, sub_blocks

__all__ = [
    "Cut",
    "Growth",
    "SubBlocks",
    "certain_ns",
    "growth_of",
    "least_width_ns",
    "lowest",
    "mean",
    "quantile",
    "sub_blocks",
]
