"""Fault injection: the points of a layer, the faults that a trial arms, and the evidence of each fire.

The package imports no other package of seatrial.
"""

from faults.disabled import DisabledFaults
from faults.effects import Effect
from faults.evidence import FaultState, Fire
from faults.fault_instance import State
from faults.injector import Faults
from faults.points import Action, Catalogue, Kind, Point, Severity, UnknownName
from faults.resolve import Resolved, resolve
from faults.spec import (
    Do,
    FaultSpec,
    Scope,
    SpecError,
    When,
    parse_do,
    parse_duration_s,
)

__all__ = [
    "Action",
    "Catalogue",
    "DisabledFaults",
    "Do",
    "Effect",
    "FaultSpec",
    "FaultState",
    "Faults",
    "Fire",
    "Kind",
    "Point",
    "Resolved",
    "Scope",
    "Severity",
    "SpecError",
    "State",
    "UnknownName",
    "When",
    "parse_do",
    "parse_duration_s",
    "resolve",
]
