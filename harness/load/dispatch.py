"""Sends open-loop arrivals on an absolute schedule. One loop serves all loads and waits only for time.

The next request is built before it is due, so that only sending remains at its time.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from harness.load.config import LoadConfig
from harness.load.request_builder import PreparedRequest
from harness.load.run import LoadRun
from scenarios.arrivals import Arrival, arrivals
from scenarios.load import Load

NAP_S = 0.05  # longest single sleep: a pause or stop is noticed within it
NAP_PAUSED_S = 0.01


@dataclass(frozen=True)
class DueRequest:
    """A row of a load that is due at `t_s` seconds of plan time."""

    t_s: float
    load: Load
    row: Arrival


def schedule(config: LoadConfig) -> Iterator[DueRequest]:
    """Rows of all open-loop loads in order of time; ties are in the order of the loads."""
    streams = [_stream(load, config) for load in config.loads if load.arrivals != "closed"]
    return heapq.merge(*streams, key=lambda due: due.t_s)


def _stream(load: Load, config: LoadConfig) -> Iterator[DueRequest]:
    for row in arrivals(load, config.seed):
        yield DueRequest(row.t_s, load, row)


def dispatch(run: LoadRun) -> None:
    """Offer each row at its time, until the rows or the run end. It blocks, so it needs its own greenlet or thread."""
    for due in schedule(run.config):
        planned = run.builder.load_request(due.load, due.row)
        if not _wait_until(run, due.t_s):
            return
        run.offer(planned, run.plan_clock.due_ns(due.t_s))


def canaries(run: LoadRun) -> None:
    """Offer a canary every `every_s` seconds of plan time. It blocks like `dispatch`."""
    canary = run.config.canary
    if canary is None:
        return
    number = 0
    while True:
        planned: PreparedRequest = run.builder.canary_request(number)
        t_s = number * canary.every_s
        if not _wait_until(run, t_s):
            return
        run.offer(planned, run.plan_clock.due_ns(t_s))
        number += 1


def _wait_until(run: LoadRun, t_s: float) -> bool:
    """Wait until `t_s` of plan time. Returns False when the run stops first."""
    while not run.stopping and not run.stopped_by_breaker:
        if not run.plan_clock.running:
            run.ports.sleep(NAP_PAUSED_S)
            continue
        wait_ns = run.plan_clock.due_ns(t_s) - run.ports.clock_ns()
        if wait_ns <= 0:
            return True
        run.ports.sleep(min(NAP_S, wait_ns / 1e9))
    return False
