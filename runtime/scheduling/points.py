"""Fault points of the scheduler."""

from faults.actions import fail
from faults.points import Point
from runtime.core.errors import Refused

SCHED_ADMIT = Point(
    name="sched.admit",
    layer="scheduling",
    breaks="admission refuses a new request with 429; requests already admitted are untouched",
    actions=(fail("refuse", Refused, symptom="outcome:refused"),),
    scope=("group", "request", "step"),
)

POINTS = (SCHED_ADMIT,)
