"""Fault points of the scheduler.

plan() --before--> is anybody to go? --in_flight--> the one who goes is chosen --> swap, recompute or fail
"""

from faults.actions import fail
from faults.points import Action, Kind, Point, shows
from faults.spec import PHASES
from runtime.core.errors import AdmissionRefused, Preempted

SCHED_ADMIT = Point(
    name="sched.admit",
    layer="scheduling",
    breaks="admission refuses a new request with 429; requests already admitted are untouched",
    actions=(fail("refuse", AdmissionRefused, symptom="outcome:refused"),),
    scope=(shows("group"),),
)

SCHED_PREEMPT = Point(
    name="sched.preempt",
    layer="scheduling",
    breaks=(
        "the last in rank is preempted though there is room (force), or who is preempted anyway ends with 429 instead "
        "of coming back (fail, in_flight); tokens of all others, and of those who come back, stay as they are"
    ),
    actions=(
        Action("force", Kind.LIE, symptom="mark:kv.preempt"),
        fail("fail", Preempted, symptom="outcome:refused", placements=("in_flight",)),
    ),
    scope=(shows("group", phase=PHASES),),
)

POINTS = (SCHED_ADMIT, SCHED_PREEMPT)
