"""Fault windows: the time in which a fault may show, and the requests that it may affect.

    arm_ns         first_ns            heal_ns              end_ns
      |--- armed ---|--- breaking -------|--- recovering ------|
      ^ in here victims may have the outcomes that `expect` allows; trends leave it out, ceilings include it

A fault that never fired has no window, and neither has one that the plan does not declare: it excuses nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from assertions.history import History
from assertions.plan_view import Expect, PlannedFault, PlanView
from assertions.rows import FaultRow, Fire, Floats, Mask, Requests

NS_PER_S = 1_000_000_000
RECOVER_DEFAULT_S = 30.0
# Marks, log lines and served rows are written a little after the time that they name.
SLACK_NS = 2 * NS_PER_S


@dataclass(frozen=True)
class FaultWindow:
    """The window of a fault occurrence that fired.

    `end_ns` is the heal and the recovery margin, or the run's end when the fault never healed.
    """

    row: FaultRow
    planned: PlannedFault
    arm_ns: int
    first_ns: int
    heal_ns: int | None
    end_ns: int
    fires: tuple[Fire, ...]

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def expect(self) -> Expect:
        return self.planned.expect

    def holds(self, t_ns: float, slack_ns: int = SLACK_NS) -> bool:
        return self.arm_ns <= t_ns <= self.end_ns + slack_ns


@dataclass(frozen=True)
class Victims:
    """Rows of `Requests` that one window may affect. `named` holds the rows that the injector named."""

    rows: frozenset[int]
    named: frozenset[int]


def windows(history: History, plan: PlanView) -> tuple[FaultWindow, ...]:
    """A window for each planned occurrence that fired, in the order of arming."""
    planned = {(fault.id, fault.n): fault for fault in plan.faults}
    made = []
    for row in history.faults:
        if row.fired <= 0 or row.arm_ns is None:
            continue
        fires = tuple(fire for fire in history.fires if (fire.fault, fire.n) == (row.id, row.n))
        first_ns = row.first_ns if row.first_ns is not None else (fires[0].t_ns if fires else row.arm_ns)
        if (fault := planned.get((row.id, row.n))) is None:
            continue  # undeclared: no judge is told of it, so it excuses nothing
        end_ns = history.end_ns if row.heal_ns is None else recovered_by(history, row.heal_ns, fault)
        made.append(FaultWindow(row, fault, row.arm_ns, first_ns, row.heal_ns, max(end_ns, row.arm_ns), fires))
    return tuple(sorted(made, key=lambda window: (window.arm_ns, window.name)))


def recovered_by(history: History, heal_ns: int, planned: PlannedFault) -> int:
    """The end (ns) of the recovery margin: `recover` seconds after the heal, or the end of request
    `recover.completed`."""
    expect = planned.expect
    if expect.recover_completed is not None:
        ends = history.requests.end_ns[history.requests.ok]
        after = np.sort(ends[ends > heal_ns])
        if len(after) >= expect.recover_completed > 0:
            return int(after[expect.recover_completed - 1])
        return max(history.end_ns, heal_ns)
    seconds = RECOVER_DEFAULT_S if expect.recover_s is None else expect.recover_s
    return heal_ns + round(seconds * NS_PER_S)


def inside(times_ns: Floats, intervals: Iterable[tuple[float, float]]) -> Mask:
    """A mask of the times that lie in one of the intervals."""
    found = np.zeros(len(times_ns), dtype=bool)
    for start_ns, end_ns in intervals:
        found |= (times_ns >= start_ns) & (times_ns <= end_ns)
    return found


def touched(requests: Requests, found: Sequence[FaultWindow]) -> Mask:
    """A mask of the requests whose life overlaps one of the windows. A request without an end never ends."""
    start = np.where(requests.sent, np.fmin(requests.sent_ns, requests.intended_ns), requests.intended_ns)
    # A dropped arrival exists only at its intended time.
    end = np.where(requests.sent, np.where(np.isnan(requests.end_ns), np.inf, requests.end_ns), start)
    mask = np.zeros(len(requests), dtype=bool)
    for window in found:
        mask |= (start <= window.end_ns) & (end >= window.arm_ns)
    return mask


def victims(window: FaultWindow, requests: Requests, client_of: dict[str, str]) -> Victims:
    """The requests that a window may affect, by the fault's `victims`.

    hit    requests that the injector named; a fire that names none hits all of its group that are in flight
    scope  every request of the window in the fault's group and load (a client does not see other scopes)
    all    every request of the window
    """
    living = touched(requests, [window])
    named = _named(window, requests, client_of)
    word = window.expect.victims
    if word == "all":
        return Victims(frozenset(np.flatnonzero(living).tolist()), named)
    if word == "scope":
        scope = window.planned.scope
        for key, column in (("group", requests.group), ("load", requests.load)):
            if key in scope:
                living &= column.among(scope[key])
        return Victims(frozenset(np.flatnonzero(living).tolist()) | named, named)
    rows = set(named)
    for fire in window.fires:
        if not fire.requests:
            mask = in_flight(requests, fire.t_ns)
            rows |= set(np.flatnonzero(mask & requests.group.among(fire.group) if fire.group else mask).tolist())
    return Victims(frozenset(rows), named)


def _named(window: FaultWindow, requests: Requests, client_of: dict[str, str]) -> frozenset[int]:
    names = (client_of.get(name, name) for fire in window.fires for name in fire.requests)
    return frozenset(requests.row_of[name] for name in names if name in requests.row_of)


def in_flight(requests: Requests, t_ns: int) -> Mask:
    """A mask of the requests that were sent and had not ended at `t_ns`."""
    end = np.where(np.isnan(requests.end_ns), np.inf, requests.end_ns)
    return requests.sent & (requests.sent_ns <= t_ns) & (end >= t_ns)
