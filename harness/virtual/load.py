"""The load of a virtual run: clients and when each asks for what. Open arrivals come lazily, one is planned at a time.

It does what LoadProcess does in a live trial: `begin`, `pause`, `resume`, `stop`; `idle` and `finished` tell its state.
The schedule is the same absolute one, and stands still during a pause (harness.load.plan_clock).
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from harness.load.breaker import Breaker
from harness.load.outcome import ClientEnd, Outcome
from harness.load.pacing import AFTER_FAILURE_S, CANARY_SLOTS
from harness.load.plan_clock import PlanClock
from harness.plan.canary import CanaryConfig
from harness.virtual.asked import canary_asked, load_asked, open_asked
from harness.virtual.client import Asked, Client, request_row
from harness.virtual.rows import SECOND, Rows
from runtime.device.hash_model import prompt_tokens
from runtime.device.virtual_time import VirtualTime
from scenarios.arrivals import Turn, turns
from scenarios.load import Load


@dataclass
class _User:
    """A closed-loop user between two requests."""

    load: Load
    turns: Iterator[Turn]
    next: Turn | None = None
    """The request that it thinks about. Filled by `_think`."""


@dataclass
class VirtualLoad:
    """The clients of one run. `send` hands a client to the server, `hang_up` cuts one; `ended` is told each outcome."""

    time: VirtualTime
    rows: Rows
    seed: int
    loads: tuple[Load, ...]
    canary: CanaryConfig | None
    canary_every_s: float
    send: Callable[[Client], None]
    hang_up: Callable[[Client, ClientEnd], None]
    ended: Callable[[Client], None]
    gate: Breaker | None = None
    idle: bool = False
    finished: bool = False
    sent: int = 0
    done: int = 0
    dropped: int = 0
    in_flight: int = 0
    _open: dict[str, Client] = field(default_factory=dict)
    _taken: dict[str, int] = field(default_factory=dict)
    _users: dict[str, _User] = field(default_factory=dict)
    """Closed-loop users by the request they wait for."""
    _waiting: list[_User] = field(default_factory=list)
    """Those who have thought to the end while the load stood still."""
    _patient: dict[float, deque[Client]] = field(default_factory=dict)
    """By patience, in order of sending: who waits, and some who have ended."""
    _timeline: PlanClock = field(default_factory=PlanClock)
    _pending: tuple[float, Asked] | None = None
    _canaries: int = 0
    _round: int = 0
    """Counts pauses and the stop: what was planned before them no longer counts."""
    _stopping: bool = False

    def __post_init__(self) -> None:
        self._schedule = open_asked(self.loads, self.seed)
        self._most = {load.id: load.in_flight_max for load in self.loads} | {"canary": CANARY_SLOTS}
        self._named = {load.id: load for load in self.loads}

    # -- what LoadProcess does ----------------------------------------------------------------------------------------

    @property
    def breaker(self) -> str | None:
        """Why the load stopped by itself: a limit of the scenario."""
        return (self.gate.stopped or None) if self.gate is not None else None

    def tick(self) -> None:
        """No process, no news."""

    def phase(self, name: str, n: int) -> None:
        """A phase begins: no window of gaps lies in two of them."""
        self.rows.turn_gaps(self.time.now_ns(), cut=True)

    def begin(self, t0_ns: int) -> None:
        """The schedule starts at `t0_ns`."""
        self._timeline.start(t0_ns)
        self._pending = next(self._schedule, None)
        self._plan_arrival()
        self._plan_canary()
        for load in self.loads:
            for user in range((load.users or 0) if load.arrivals == "closed" else 0):
                self._think(_User(load, turns(load, self.seed, user)), 0.0)

    def pause(self) -> None:
        """Send no more until `resume`; `idle` tells when the last reply is in."""
        self._timeline.pause(self.time.now_ns())
        self._round += 1
        self.idle = self.in_flight == 0

    def resume(self) -> None:
        """Go on where the schedule stood still."""
        self._timeline.resume(self.time.now_ns())
        self.idle = False
        self._plan_arrival()
        self._plan_canary()
        waiting, self._waiting = self._waiting, []
        for user in waiting:
            self._sit(user)

    def stop(self, drain_s: float) -> None:
        """Send no more, let open replies come in for up to `drain_s`, then cut the rest."""
        self._stopping = True
        self._round += 1
        self.finished = self.in_flight == 0
        self.time.at(self.time.now_ns() + round(drain_s * 1e9), self._cut_rest)

    # -- open loops ---------------------------------------------------------------------------------------------------

    def _plan_arrival(self) -> None:
        if self._pending is not None and not self._stopping:
            self._at(self._timeline.due_ns(self._pending[0]), self._arrive)

    def _arrive(self) -> None:
        assert self._pending is not None
        t_s, asked = self._pending
        self._offer(asked, self._timeline.due_ns(t_s))
        self._pending = next(self._schedule, None)
        self._plan_arrival()

    def _plan_canary(self) -> None:
        if self.canary is not None and not self._stopping:
            self._at(self._timeline.due_ns(self._canaries * self.canary_every_s), self._send_canary)

    def _send_canary(self) -> None:
        assert self.canary is not None
        number = self._canaries
        self._canaries += 1
        self._offer(canary_asked(self.canary, self.seed, number), self.time.now_ns())
        self._plan_canary()

    def _at(self, t_ns: int, call: Callable[[], None]) -> None:
        """`call` at that moment, unless the load is paused or stopped before it."""
        planned_in = self._round

        def unless_over() -> None:
            if planned_in == self._round:
                call()

        self.time.at(max(t_ns, self.time.now_ns()), unless_over)

    # -- closed loops -------------------------------------------------------------------------------------------------

    def _think(self, user: _User, pause_s: float) -> None:
        user.next = next(user.turns)
        due_ns = self.time.now_ns() + round((user.next.think_s + pause_s) * 1e9)
        self.time.at(due_ns, lambda: self._sit(user))

    def _sit(self, user: _User) -> None:
        """The user has thought to the end: it asks, or waits until the load goes on."""
        if self._stopping:
            return
        if not self._timeline.running:
            self._waiting.append(user)
            return
        assert user.next is not None
        asked = load_asked(user.load, user.next, tuple(prompt_tokens(user.next.parts)))
        self._users[asked.id] = user
        if not self._offer(asked, self.time.now_ns()):
            self._users.pop(asked.id)
            self._think(user, AFTER_FAILURE_S)

    # -- one request --------------------------------------------------------------------------------------------------

    def _offer(self, asked: Asked, intended_ns: int) -> bool:
        """Send it now. A full pool counts a dropped arrival; nothing waits. False: it was not sent."""
        now_ns = self.time.now_ns()
        if self.gate is not None and not self.gate.allows(now_ns, self.in_flight):
            return False
        if self._taken.get(asked.load, 0) >= self._most[asked.load]:
            self.dropped += 1
            self.rows.put("request", request_row(asked, intended_ns, None))
            return False
        self._taken[asked.load] = self._taken.get(asked.load, 0) + 1
        self.in_flight += 1
        self.sent += 1
        load = asked.load
        gaps = self.rows.gaps
        client = Client(asked, intended_ns, now_ns, lambda gap_ns: gaps.add(load, gap_ns))
        self._open[asked.id] = client
        self.rows.put("request", client.request_row())
        self._will_tire(client)
        self.send(client)
        return True

    def over(self, client: Client) -> None:
        """The server, or the client itself, has ended it."""
        asked, outcome = client.asked, client.outcome
        assert outcome is not None
        self.rows.put("reply", client.reply_row())
        del self._open[asked.id]
        self._taken[asked.load] -= 1
        self.in_flight -= 1
        self.done += 1
        if self.gate is not None and asked.kind != "malformed":
            self._tell_gate(client, outcome)
        self.ended(client)
        user = self._users.pop(asked.id, None)
        if user is not None and not self._stopping:
            self._think(user, 0.0 if outcome in (Outcome.OK, Outcome.CANCELLED) else AFTER_FAILURE_S)
        if self.in_flight == 0:
            self.idle = not self._timeline.running
            self.finished = self._stopping

    def _tell_gate(self, client: Client, outcome: Outcome) -> None:
        assert self.gate is not None
        assert client.end_ns is not None
        if outcome in (Outcome.CANCELLED, Outcome.UNFINISHED):
            return
        bad = outcome is Outcome.REFUSED or (client.http or 0) >= 500
        tokens = (client.prompt_tokens or 0) + len(client.tokens)
        self.gate.record_reply(client.end_ns, bad, client.end_ns - client.sent_ns, tokens, client.retry_after_s)

    def _will_tire(self, client: Client) -> None:
        """One thing planned for all who wait equally long: one each would end every run of fast-forward."""
        patience_s = client.asked.timeout_s
        waiting = self._patient.get(patience_s)
        if waiting is None:
            waiting = self._patient[patience_s] = deque()
        waiting.append(client)
        if len(waiting) == 1:
            self.time.at(client.sent_ns + round(patience_s * SECOND), lambda: self._tire(patience_s))

    def _tire(self, patience_s: float) -> None:
        """Whose patience is over hangs up; the next look is when the next one's is."""
        waiting, now_ns = self._patient[patience_s], self.time.now_ns()
        while waiting and (waiting[0].outcome is not None or waiting[0].sent_ns + round(patience_s * SECOND) <= now_ns):
            client = waiting.popleft()
            if client.outcome is None:
                self.hang_up(client, ClientEnd.DEADLINE)
        if waiting:
            self.time.at(waiting[0].sent_ns + round(patience_s * SECOND), lambda: self._tire(patience_s))

    def _cut_rest(self) -> None:
        for client in list(self._open.values()):
            self.hang_up(client, ClientEnd.STOPPED)
        self.finished = True
