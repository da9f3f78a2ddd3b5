"""Fault points of the contract layer.

One thread crosses them, so hits count all crossings. Rows of several groups share a launch, so no group is passed.
"""

from faults.actions import corrupt, lie
from faults.points import Point

CONTRACT_BIND = Point(
    name="contract.bind",
    layer="contract",
    breaks=(
        "what the device says about one tensor of one launch is damaged as the argument names: a dim too many or an "
        "extent that is off (shape), another element type, strides with gaps, another device; the tensor is whole"
    ),
    actions=(corrupt("shape", "dtype", "stride", "device", symptom="mark:contract.violation"),),
    scope=("graph", "request", "step"),
)

CONTRACT_CACHE = Point(
    name="contract.cache",
    layer="contract",
    breaks="one look-up of the shape cache is answered with another key's entry; the entries themselves are whole",
    actions=(lie(argument="", symptom="mark:contract.cache_refused"),),
    scope=("graph", "request", "step"),
)

POINTS = (CONTRACT_BIND, CONTRACT_CACHE)
