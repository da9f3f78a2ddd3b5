"""The load of a virtual run: it sends the planned requests at their times. Only the next open-loop arrival is planned.

It implements the load port of a trial, as LoadProcess does in a live one. The schedule is absolute and does not advance
while the load is paused (harness.load.plan_clock).
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from harness.load.breaker import Breaker
from harness.load.outcome import ClientEnd, Outcome
from harness.load.pacing import AFTER_FAILURE_S, CANARY_SLOTS
from harness.load.plan_clock import PlanClock
from harness.plan.canary import CanaryConfig
from harness.virtual.client import Client, request_row
from harness.virtual.client_requests import ClientRequest, canary_request, load_request, open_loop_requests
from harness.virtual.rows import SECOND, Rows
from runtime.device.hash_model import prompt_tokens
from runtime.device.virtual_time import VirtualTime
from scenarios.arrivals import Turn, turns
from scenarios.load import Load
from scenarios.schema import Scenario


@dataclass
class _User:
    """A closed-loop user between two requests."""

    load: Load
    turns: Iterator[Turn]
    next: Turn


@dataclass
class VirtualLoad:
    """The clients of one run. `send` gives a client to the server, `hang_up` closes its connection.

    `ended` is called with each client whose request has ended.
    """

    time: VirtualTime
    rows: Rows
    scenario: Scenario
    canary: CanaryConfig
    send: Callable[[Client], None]
    hang_up: Callable[[Client, ClientEnd], None]
    ended: Callable[[Client], None]
    limits: Breaker
    idle: bool = False
    finished: bool = False
    sent: int = 0
    done: int = 0
    dropped: int = 0
    _open: dict[str, Client] = field(default_factory=dict)
    """Clients whose requests are open, by the id of the request."""
    _open_per_load: dict[str, int] = field(default_factory=dict)
    _user_of: dict[str, _User] = field(default_factory=dict)
    """Closed-loop users that wait for a reply, by the id of the request."""
    _held_users: list[_User] = field(default_factory=list)
    """Users whose next request became due during a pause."""
    _by_timeout: dict[float, deque[Client]] = field(default_factory=dict)
    """Clients by timeout (s), in order of sending; some of them have ended."""
    _plan_clock: PlanClock = field(default_factory=PlanClock)
    _next_arrival: tuple[float, ClientRequest] | None = None
    """The next request of the open loops, with its time in the schedule (s)."""
    _canaries: int = 0
    _generation: int = 0
    """Number of pauses and stops. Calls that were planned in an earlier generation do nothing."""
    _stopping: bool = False

    def __post_init__(self) -> None:
        self._arrivals = open_loop_requests(self.scenario.load, self.scenario.seed)
        self._open_max = {load.id: load.in_flight_max for load in self.scenario.load} | {"canary": CANARY_SLOTS}

    # -- the load port ------------------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Number of open requests."""
        return len(self._open)

    @property
    def breaker(self) -> str | None:
        """The limit of the scenario that stopped the load; None while none has."""
        return self.limits.stopped or None

    def tick(self) -> None:
        """See Load. There is no process whose events could be read."""

    def phase(self, name: str, n: int) -> None:
        """See Load. A window of the gap histogram never lies in two phases."""
        self.rows.write_gaps(self.time.now_ns(), cut=True)

    def begin(self, t0_ns: int) -> None:
        """See Load."""
        self._plan_clock.start(t0_ns)
        self._next_arrival = next(self._arrivals, None)
        self._plan_arrival()
        self._plan_canary()
        for load in self.scenario.load:
            for number in range((load.users or 0) if load.arrivals == "closed" else 0):
                requests = turns(load, self.scenario.seed, number)
                self._plan_turn(_User(load, requests, next(requests)), 0.0)

    def pause(self) -> None:
        """See Load."""
        self._plan_clock.pause(self.time.now_ns())
        self._generation += 1
        self.idle = self.in_flight == 0

    def resume(self) -> None:
        """See Load."""
        self._plan_clock.resume(self.time.now_ns())
        self.idle = False
        self._plan_arrival()
        self._plan_canary()
        held, self._held_users = self._held_users, []
        for user in held:
            self._send_turn(user)

    def stop(self, drain_s: float) -> None:
        """See Load."""
        self._stopping = True
        self._generation += 1
        self.finished = self.in_flight == 0
        self.time.at(self.time.now_ns() + round(drain_s * SECOND), self._close_open)

    def _close_open(self) -> None:
        for client in list(self._open.values()):
            self.hang_up(client, ClientEnd.STOPPED)
        self.finished = True

    # -- open loops ---------------------------------------------------------------------------------------------------

    def _plan_arrival(self) -> None:
        if self._next_arrival is not None and not self._stopping:
            self._at(self._next_arrival[0], self._arrive)

    def _arrive(self) -> None:
        assert self._next_arrival is not None
        t_s, request = self._next_arrival
        self._offer(request, self._plan_clock.due_ns(t_s))
        self._next_arrival = next(self._arrivals, None)
        self._plan_arrival()

    def _plan_canary(self) -> None:
        if not self._stopping:
            self._at(self._canaries * self.canary.every_s, self._send_canary)

    def _send_canary(self) -> None:
        request = canary_request(self.canary, self.scenario.seed, self._canaries)
        self._canaries += 1
        self._offer(request, self.time.now_ns())
        self._plan_canary()

    def _at(self, t_s: float, call: Callable[[], None]) -> None:
        """Make the call at time `t_s` (s) of the schedule, unless the load is paused or stopped before."""
        generation = self._generation

        def call_if_current() -> None:
            if generation == self._generation:
                call()

        self.time.at(max(self._plan_clock.due_ns(t_s), self.time.now_ns()), call_if_current)

    # -- closed loops -------------------------------------------------------------------------------------------------

    def _plan_turn(self, user: _User, extra_s: float) -> None:
        """Plan the user's next request for the end of its think time and `extra_s`."""
        due_ns = self.time.now_ns() + round((user.next.think_s + extra_s) * SECOND)
        self.time.at(due_ns, lambda: self._send_turn(user))

    def _send_turn(self, user: _User) -> None:
        """Send the user's next request, or hold it until `resume`."""
        if self._stopping:
            return
        if not self._plan_clock.running:
            self._held_users.append(user)
            return
        request = load_request(user.load, user.next, tuple(prompt_tokens(user.next.parts)))
        user.next = next(user.turns)
        self._user_of[request.id] = user
        if not self._offer(request, self.time.now_ns()):
            self._user_of.pop(request.id)
            self._plan_turn(user, AFTER_FAILURE_S)

    # -- one request --------------------------------------------------------------------------------------------------

    def _offer(self, request: ClientRequest, intended_ns: int) -> bool:
        """Send the request now, or drop it when its load has too many open ones. Returns True when it was sent."""
        now_ns = self.time.now_ns()
        if not self.limits.allows(now_ns, self.in_flight):
            return False
        open_now = self._open_per_load.get(request.load, 0)
        if open_now >= self._open_max[request.load]:
            self.dropped += 1
            self.rows.put("request", request_row(request, intended_ns, None))
            return False
        self._open_per_load[request.load] = open_now + 1
        self.sent += 1
        client = self._open[request.id] = Client(request, intended_ns, now_ns, self.rows.gaps)
        self.rows.put("request", request_row(request, intended_ns, now_ns))
        self._plan_timeout(client)
        if client.cancel is not None and client.cancel.after_s is not None:
            self.time.at(now_ns + round(client.cancel.after_s * SECOND), lambda: self._leave(client))
        self.send(client)
        return True

    def _leave(self, client: Client) -> None:
        """Hang up for a client that waits no longer than planned."""
        if client.outcome is None:
            self.hang_up(client, ClientEnd.CANCELLED)

    def end(self, client: Client) -> None:
        """Record the reply of a request that has ended."""
        request, outcome = client.request, client.outcome
        assert outcome is not None
        self.rows.put("reply", client.reply_row())
        del self._open[request.id]
        self._open_per_load[request.load] -= 1
        self.done += 1
        if request.kind != "malformed" and outcome not in (Outcome.CANCELLED, Outcome.UNFINISHED):
            self._record_for_limits(client, outcome)
        self.ended(client)
        user = self._user_of.pop(request.id, None)
        if user is not None and not self._stopping:
            self._plan_turn(user, 0.0 if outcome in (Outcome.OK, Outcome.CANCELLED) else AFTER_FAILURE_S)
        if self.in_flight == 0:
            self.idle = not self._plan_clock.running
            self.finished = self._stopping

    def _record_for_limits(self, client: Client, outcome: Outcome) -> None:
        assert client.end_ns is not None
        bad = outcome is Outcome.REFUSED or (client.http or 0) >= 500
        tokens = (client.prompt_tokens or 0) + len(client.tokens)
        self.limits.record_reply(client.end_ns, bad, client.end_ns - client.sent_ns, tokens, client.retry_after_s)

    def _plan_timeout(self, client: Client) -> None:
        """Plan one call for all clients with the same timeout: a call for each would end every run of fast-forward."""
        timeout_s = client.request.timeout_s
        waiting = self._by_timeout.setdefault(timeout_s, deque())
        waiting.append(client)
        if len(waiting) == 1:
            self.time.at(client.sent_ns + round(timeout_s * SECOND), lambda: self._end_overdue(timeout_s))

    def _end_overdue(self, timeout_s: float) -> None:
        """Hang up for clients whose timeout has passed, and plan the call for the next one."""
        waiting, now_ns, timeout_ns = self._by_timeout[timeout_s], self.time.now_ns(), round(timeout_s * SECOND)
        while waiting and (waiting[0].outcome is not None or waiting[0].sent_ns + timeout_ns <= now_ns):
            client = waiting.popleft()
            if client.outcome is None:
                self.hang_up(client, ClientEnd.DEADLINE)
        if waiting:
            self.time.at(waiting[0].sent_ns + timeout_ns, lambda: self._end_overdue(timeout_s))
