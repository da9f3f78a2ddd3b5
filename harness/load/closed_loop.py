"""Closed-loop users: each thinks, sends, waits for the reply, and starts again, so users slow down with the server.

Closed loops hide a stall from percentiles. Latency is therefore judged on open loops; closed loops are for
conversations and for measuring capacity.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.load.config import LoadConfig
from harness.load.outcome import Outcome
from harness.load.pacing import AFTER_FAILURE_S
from harness.load.run import LoadRun
from scenarios.arrivals import Turn, turns
from scenarios.load import Load

NAP_S = 0.05


@dataclass
class ClosedUser:
    """One user of one load."""

    load: Load
    turns: Iterator[Turn]
    pause_s: float = field(default=0.0)  # extra think time after a failed request

    def turn(self, run: LoadRun) -> bool:
        """Think, send, and wait for the end of the reply. Returns False when the run stops."""
        row = next(self.turns)
        planned = run.builder.load_request(self.load, row)
        if not self._think(run, row.think_s + self.pause_s):
            return False
        outcome = run.send(planned, run.ports.clock_ns())
        self.pause_s = 0.0 if outcome in (Outcome.OK, Outcome.CANCELLED) else AFTER_FAILURE_S
        return not run.stopping

    def _think(self, run: LoadRun, think_s: float) -> bool:
        until_ns = run.ports.clock_ns() + int(think_s * 1e9)
        while not run.stopping and not run.stopped_by_breaker:
            wait_ns = until_ns - run.ports.clock_ns()
            if wait_ns <= 0 and run.plan_clock.running:
                return True
            run.ports.sleep(NAP_S if wait_ns <= 0 else min(NAP_S, wait_ns / 1e9))
        return False


def closed_users(config: LoadConfig) -> list[ClosedUser]:
    """The users of all closed loads."""
    return [
        ClosedUser(load, turns(load, config.seed, user))
        for load in config.loads
        if load.arrivals == "closed"
        for user in range(load.users or 0)
    ]
