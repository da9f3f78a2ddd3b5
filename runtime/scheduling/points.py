"""Fault points of the scheduler.

plan() --before--> select a victim, if one is needed --in_flight--> swap, recompute or fail
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
        "the last request in rank is preempted although no blocks are needed (force), or a preempted request ends with "
        "429 instead of resuming (fail, in_flight); tokens of other and of resumed requests stay as they are"
    ),
    actions=(
        Action("force", Kind.LIE, symptom="mark:kv.preempt"),
        fail("fail", Preempted, symptom="outcome:refused", placements=("in_flight",)),
    ),
    scope=(shows("group", phase=PHASES),),
)

POINTS = (SCHED_ADMIT, SCHED_PREEMPT)
