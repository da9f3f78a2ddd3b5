"""Growth of a sampled series over a trial: does it go on, has it levelled off, or can nobody tell."""

from assertions.trend.growth import Growth, growth_of
from assertions.trend.sub_blocks import SubBlocks, sub_blocks

__all__ = ["Growth", "SubBlocks", "growth_of", "sub_blocks"]
