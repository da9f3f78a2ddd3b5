"""Fault points of the models' layer. No torch."""

from faults.actions import corrupt, fail
from faults.points import Point, Severity


class ShardUnreadable(OSError):
    """A weights file can't be read."""


WEIGHTS_READ = Point(
    name="weights.read",
    layer="models",
    breaks=(
        "one tensor of the weights while they are loaded: it can't be read, or comes with a bit flipped; the files are "
        "whole, and nothing is served from weights that are not those of the files"
    ),
    actions=(
        fail("error", ShardUnreadable, symptom="event:exit", severity=Severity.FATAL),
        corrupt("bit_flip", symptom="event:exit", severity=Severity.FATAL),
    ),
)

POINTS = (WEIGHTS_READ,)
