"""Fault points of the scheduler."""

from faults.points import Action, Kind, Point, Severity
from runtime.core.errors import Refused

SCHED_ADMIT = Point(
    name="sched.admit",
    layer="scheduling",
    breaks="admission refuses a new request with 429; requests already admitted are untouched",
    actions=(
        Action(
            word="refuse",
            kind=Kind.RAISE,
            argument="",
            error=Refused,
            severity=Severity.RECOVERABLE,
            symptom="outcome:refused",
        ),
    ),
    scope=("group", "request", "step"),
)

POINTS = (SCHED_ADMIT,)
