"""What can break: points of a layer, faults that a trial arms, evidence of what fired. Knows none of our parts."""

from faults.bus import Faults
from faults.effects import Effect
from faults.evidence import FaultState, Fire
from faults.lifecycle import State
from faults.off import NullFaults
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
    "Do",
    "Effect",
    "FaultSpec",
    "FaultState",
    "Faults",
    "Fire",
    "Kind",
    "NullFaults",
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
