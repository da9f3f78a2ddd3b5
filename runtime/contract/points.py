"""Fault points of the contract layer.

One thread crosses them, several times a step: once at each boundary of `step.py`, which `scope.graph` names. Rows of
several groups share a launch, so no group is passed.
"""

from faults.actions import corrupt, lie
from faults.points import Point, shows

GRAPHS = (
    *("inputs", "decode", "decode_by_page", "decode_mixed", "decode_mixed_by_page"),
    *("chunk", "layer", "head", "sample"),
)
"""The boundaries of a step, which `step.step_contracts` describes; a test checks that both agree."""

CONTRACT_BIND = Point(
    name="contract.bind",
    layer="contract",
    breaks=(
        "one tensor at one boundary of a step is replaced by a damaged one, as the argument names: a dim too many "
        "(rank), an extent that is off (shape), another element type, strides with gaps, another device, a first byte "
        "that is not aligned; weights and KV keep their values"
    ),
    actions=(corrupt("shape", "rank", "dtype", "stride", "device", "align", symptom="mark:contract.violation"),),
    scope=(shows(graph=GRAPHS),),
)

CONTRACT_CACHE = Point(
    name="contract.cache",
    layer="contract",
    breaks="one look-up of the shape cache is answered with another key's entry; the entries themselves are whole",
    actions=(lie(argument="", symptom="mark:contract.cache_refused"),),
    scope=(shows(graph=GRAPHS),),
)

POINTS = (CONTRACT_BIND, CONTRACT_CACHE)
