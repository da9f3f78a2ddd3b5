"""The load of one process: it sends planned requests, keeps deadlines and limits, and records each request.

    offer --- breaker? --- slot? --- spawn --- request line --- exchange --- reply line
                |            |
            held back     dropped (counted, recorded, never waited for)

It uses neither Locust nor gevent: `Ports` provides spawn and sleep, so it also runs on threads. An internal error
(`failure`) ends the run, because a load that can't be recorded must not go on.
"""

import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.load.breaker import Breaker
from harness.load.config import LoadConfig
from harness.load.connection import ConnectionPool
from harness.load.exchange import Exchange, Reply
from harness.load.itl import GapHistogram
from harness.load.outcome import ClientEnd, Outcome
from harness.load.pacing import CANARY_SLOTS
from harness.load.plan_clock import PlanClock
from harness.load.request_builder import PreparedRequest, RequestBuilder
from harness.load.selfaudit import SelfAudit
from harness.load.spool import Spool
from harness.load.spool_lines import canary_line, reply_line

SWEEP_S = 0.02  # seconds by which a deadline may be noticed late
GRACE_S = 2.0  # seconds that cut requests have to record their reply


@dataclass(frozen=True)
class Ports:
    """Clock, sleep and spawn, which differ between gevent inside Locust and threads."""

    clock_ns: Callable[[], int]
    sleep: Callable[[float], None]
    spawn: Callable[[Callable[[], object]], object]


@dataclass
class LoadRun:
    """One load run. `on_reply(planned, sent_ns, reply)` is called after each reply is recorded."""

    config: LoadConfig
    spool: Spool
    ports: Ports
    on_reply: Callable[[PreparedRequest, int, Reply], None] | None = None

    def __post_init__(self) -> None:
        now_ns = self.ports.clock_ns()
        self.plan_clock = PlanClock()
        self.audit = SelfAudit(self.ports.clock_ns)
        self.builder = RequestBuilder(self.config)
        self.failure: BaseException | None = None
        self.stopping = False
        self._breaker = Breaker(self.config.politeness, now_ns)
        self._gaps = GapHistogram(now_ns)
        self._connections = ConnectionPool()
        self._lock = threading.Lock()
        self._open: dict[str, tuple[Exchange, int]] = {}
        """The requests in flight by id, each with its deadline (ns)."""
        self._free = {load.id: load.in_flight_max for load in self.config.loads} | {"canary": CANARY_SLOTS}
        """The number of requests that each load may still open."""
        self._held_reported = 0

    @property
    def stopped_by_breaker(self) -> str:
        """The reason why the breaker stopped the load, "" while it has not."""
        return self._breaker.stopped

    # -- sending ---------------------------------------------------------------------------------------------------

    def offer(self, planned: PreparedRequest, intended_ns: int) -> None:
        """Send a request now without blocking. An arrival beyond the load's limit counts as dropped."""
        if self._admit(planned, intended_ns):
            self.ports.spawn(lambda: self._guarded(planned, intended_ns))

    def send(self, planned: PreparedRequest, intended_ns: int) -> Outcome | None:
        """Send a request and wait for its end, for closed-loop users. Returns None when it was not sent."""
        if not self._admit(planned, intended_ns):
            return None
        reply = self._guarded(planned, intended_ns)
        return reply.outcome if reply is not None else None

    def _admit(self, planned: PreparedRequest, intended_ns: int) -> bool:
        now_ns = self.ports.clock_ns()
        with self._lock:
            if self.stopping or not self._breaker.allows(now_ns, self.audit.in_flight):
                return False
            if self._free[planned.load_id] > 0:
                self._free[planned.load_id] -= 1
                self.audit.in_flight += 1
                return True
            self.audit.dropped += 1
        self._put({**planned.line, "intended_ns": intended_ns, "sent_ns": None})
        return False

    def _guarded(self, planned: PreparedRequest, intended_ns: int) -> Reply | None:
        try:
            return self._exchange(planned, intended_ns)
        except BaseException as error:
            self.fail(error)
            return None
        finally:
            with self._lock:
                self._free[planned.load_id] += 1
                self.audit.in_flight -= 1
                self.audit.done += 1
                self._open.pop(planned.request.id, None)

    def _exchange(self, planned: PreparedRequest, intended_ns: int) -> Reply:
        clock_ns, request = self.ports.clock_ns, planned.request
        with self._lock:
            connection = self._connections.acquire(clock_ns())
        exchange = Exchange(request, connection, clock_ns, lambda gap_ns: self._gaps.add(planned.load_id, gap_ns))
        sent_ns = clock_ns()
        with self._lock:
            self._open[request.id] = exchange, sent_ns + int(request.timeout_s * 1e9)
            self.audit.sent += 1
            self.audit.late(sent_ns - intended_ns)
        self._put({**planned.line, "intended_ns": intended_ns, "sent_ns": sent_ns})
        reply = exchange.run()
        now_ns = clock_ns()
        with self._lock:
            self._connections.release(connection, now_ns, reply.reusable)
            # A 500 for a malformed request is a finding, but no sign of an overloaded server.
            if planned.kind != "malformed":
                self._tell_breaker(now_ns, sent_ns, reply)
        self._put(reply_line(request.id, reply))
        if planned.kind == "canary" and reply.outcome is Outcome.OK:  # an incomplete reply is not a wrong one
            self._put(canary_line(request.id, reply))
        if self.on_reply is not None:
            self.on_reply(planned, sent_ns, reply)
        return reply

    def _tell_breaker(self, now_ns: int, sent_ns: int, reply: Reply) -> None:
        if reply.outcome in (Outcome.CANCELLED, Outcome.UNFINISHED):
            return  # caused by us, so it says nothing about the server
        lost = reply.http is None and reply.outcome is not Outcome.TIMEOUT
        bad = lost or reply.outcome is Outcome.REFUSED or (reply.http or 0) >= 500
        heard = reply.stats
        tokens = (heard.prompt_tokens or 0) + (heard.count_tokens()[0] or 0)
        self._breaker.record_reply(now_ns, bad, reply.end_ns - sent_ns, tokens, reply.retry_after_s)

    # -- periodic work ---------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Cut requests that exceed their deadline. It is called every SWEEP_S."""
        now_ns = self.ports.clock_ns()
        with self._lock:
            late = [exchange for exchange, deadline_ns in self._open.values() if deadline_ns <= now_ns]
        for exchange in late:
            exchange.cut(ClientEnd.DEADLINE)

    def every_second(self, last: bool = False) -> None:
        """Record the self-audit, and the gaps when their window is over. It is called once a second."""
        with self._lock:
            line = self.audit.line()
            rows = self._gaps.rotate(self.ports.clock_ns(), cut=last)
            held, self._held_reported = self._breaker.held_back - self._held_reported, self._breaker.held_back
        for each in (line, *rows):
            self._put(each)
        if held:
            self.event(
                "held", held, self._breaker.stopped or "ramp, Retry-After or limit of the politeness to the target"
            )

    def phase(self) -> None:
        """Begin a phase: the histogram of gaps starts a new window, so that no window lies in two phases."""
        with self._lock:
            rows = self._gaps.rotate(self.ports.clock_ns(), cut=True)
        for row in rows:
            self._put(row)

    def event(self, kind: str, value: float | None = None, detail: str | None = None) -> None:
        self._put({"e": "event", "t_ns": self.ports.clock_ns(), "kind": kind, "value": value, "detail": detail})

    def finish(self, drain_s: float) -> int:
        """Stop sending, wait `drain_s` for open requests, and cut the others. Returns the number of cut requests."""
        self.stopping = True
        self._await_empty(drain_s)
        with self._lock:
            left = [exchange for exchange, _ in self._open.values()]
        for exchange in left:
            exchange.cut(ClientEnd.STOPPED)
        self._await_empty(GRACE_S)
        with self._lock:
            self._connections.close()
        self.every_second(last=True)
        return len(left)

    def _await_empty(self, most_s: float) -> None:
        until_ns = self.ports.clock_ns() + int(most_s * 1e9)
        while self.audit.in_flight and self.failure is None and self.ports.clock_ns() < until_ns:
            self.sweep()
            self.ports.sleep(SWEEP_S)

    def fail(self, error: BaseException) -> None:
        """Record an internal error, such as a full disk, and stop sending. The first error is kept."""
        if self.failure is None:
            self.failure = error
            traceback.print_exception(error, file=sys.stderr)
        self.stopping = True

    def _put(self, line: dict[str, Any]) -> None:
        try:
            self.spool.put(line)
        except OSError as error:
            self.fail(error)
