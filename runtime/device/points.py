"""Fault points of the device layer, the same for every device.

    launch() --before--> queue --> [verify] --in_flight--> model, tags --after--> complete --> ledger

A device that owns a thread carries delays and hangs out on that thread; a virtual one completes the ticket at
`effect.due_ns`, or when released. `launch` itself never waits. One crossing a launch and place; `phase` is "prefill"
when some row has more than one new token, else "decode". Rows of several groups share a launch, so no group is passed.
"""

from faults.actions import delay, fail, hang, kill
from faults.points import Point, Severity
from runtime.core.errors import DeviceLost, LaunchError
from runtime.core.work import Work

DEVICE_LAUNCH = Point(
    name="device.launch",
    layer="device",
    breaks=(
        "one launch: refused before anything ran (error, before), failed with nothing computed (in_flight), or "
        "computed and reported as failed (after); late, stuck, or fatal for the device; blocks stay with their owners"
    ),
    actions=(
        fail("error", LaunchError, symptom="mark:engine.step_repeated", placements=("before", "in_flight", "after")),
        delay(symptom="mark:device.late", placements=("before", "in_flight", "after")),
        hang(symptom="mark:device.late", placements=("before", "in_flight", "after")),
        fail(
            "lost",
            DeviceLost,
            symptom="mark:guard.fatal",
            severity=Severity.FATAL,
            placements=("before", "in_flight", "after"),
        ),
        kill(symptom="event:exit", placements=("before", "in_flight", "after")),
    ),
    scope=("phase", "request", "step"),
)

DEVICE_COMPLETE = Point(
    name="device.complete",
    layer="device",
    breaks="the news that a launch is done comes late, or not before the fault heals; its results are whole, and "
    "the device goes on with other launches meanwhile",
    actions=(
        delay(symptom="mark:device.late"),
        # Of kind HANG: the ticket must come back when the fault heals, or every drop would end in DeviceLost.
        hang("drop", symptom="mark:device.late"),
    ),
    scope=("phase", "request", "step"),
)

POINTS = (DEVICE_LAUNCH, DEVICE_COMPLETE)


def phase_of(work: Work) -> str:
    """ "prefill" when some row has more than one new token, else "decode"."""
    return "prefill" if work.tokens > work.rows else "decode"
