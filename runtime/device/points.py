"""Fault points of the device layer, shared by all devices.

    launch() --before--> queue --> [verify] --in_flight--> model, tags --after--> complete --> ledger

The CPU device waits out delays and hangs on its worker thread; the simulated one continues at `effect.due_ns`, or when
the effect is released. `launch` itself never waits. Each launch crosses each place once; `phase` is "prefill" when some
row has more than one new token, else "decode". Rows of several groups share a launch, so no group is passed.
"""

from faults import Effect
from faults.actions import delay, fail, hang, kill
from faults.points import Action, Kind, Point, Severity, shows
from faults.spec import PHASES
from runtime.core.env import Env
from runtime.core.errors import DeviceLost, LaunchError
from runtime.core.work import Copy, Way, Work

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
    scope=(shows(phase=PHASES),),
)

DEVICE_COMPLETE = Point(
    name="device.complete",
    layer="device",
    breaks="the completion of a launch is reported late, or not before the fault heals; its results are correct, and "
    "the device runs other launches meanwhile",
    actions=(
        delay(symptom="mark:device.late"),
        # The kind is HANG: the ticket must complete when the fault heals, or every drop would end in DeviceLost.
        hang("drop", symptom="mark:device.late"),
    ),
    scope=(shows(phase=PHASES),),
)

_COPY_PLACES = ("before", "in_flight", "after")
_COPY_BREAKS = (
    "one copy of a request's KV {way} the host: failed before it (before, in_flight) or reported as failed after it "
    "(after), late, stuck, or reported as done without a copy (drop); blocks and bytes of others are untouched"
)
_COPY_ACTIONS = (
    fail("error", LaunchError, symptom="mark:swap.failed", placements=_COPY_PLACES),
    delay(symptom="mark:device.late", placements=_COPY_PLACES),
    hang(symptom="mark:device.late", placements=_COPY_PLACES),
    Action("drop", Kind.DROP, severity=Severity.AFTER_CLEANUP, symptom="event:invariant"),
)

DEVICE_COPY_D2H = Point(
    name="device.copy.d2h",
    layer="device",
    breaks=_COPY_BREAKS.format(way="to"),
    actions=_COPY_ACTIONS,
)

DEVICE_COPY_H2D = Point(
    name="device.copy.h2d",
    layer="device",
    breaks=_COPY_BREAKS.format(way="from"),
    actions=_COPY_ACTIONS,
)

POINTS = (DEVICE_LAUNCH, DEVICE_COMPLETE, DEVICE_COPY_D2H, DEVICE_COPY_H2D)


def cross_copy(env: Env, copy: Copy, place: str) -> Effect | None:
    """Cross the fault point of the copy's direction. Return None while no fault is armed."""
    faults = env.faults
    if not faults.armed:
        return None
    if copy.way is Way.OUT:
        return faults.fire(DEVICE_COPY_D2H, place=place, request=copy.request_id)
    return faults.fire(DEVICE_COPY_H2D, place=place, request=copy.request_id)


def phase_of(work: Work) -> str:
    """Return "prefill" when some row has more than one new token, else "decode"."""
    return "prefill" if work.tokens > work.rows else "decode"
