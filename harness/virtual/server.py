"""Virtual time's side of serving: sessions of `runtime.server`, whose peers are clients and no sockets.

client -> receive -> Admission.admit -> engine -> step(outputs) -> Session.push -> Line.wake -> client takes events
"""

from collections.abc import Callable

from faults import Effect
from harness.load.outcome import ClientEnd
from harness.virtual.asked import params_of
from harness.virtual.client import Client
from harness.virtual.rows import Rows
from runtime.core.edge import Mailbox, Output
from runtime.core.env import Env
from runtime.core.errors import InvalidRequest, RuntimeFailure
from runtime.device.virtual_time import VirtualTime
from runtime.server.admission import Admission, Rejected, Terms
from runtime.server.config import ServerConfig
from runtime.server.errors import of_failure
from runtime.server.events import LAST, Delay, Event, Refusal
from runtime.server.request import Caller
from runtime.server.session import Session

OFTEN = frozenset({"kv.evict", "kv.unpublished"})
"""Marks that come with nearly every step."""


class VirtualServer:
    """Implements the engine's Sink. `over` is told of each client's end."""

    def __init__(
        self,
        env: Env,
        time: VirtualTime,
        mailbox: Mailbox,
        rows: Rows,
        context_tokens: int,
        config: ServerConfig,
        over: Callable[[Client], None],
    ) -> None:
        self.fatal: Callable[[], RuntimeFailure | None] = lambda: None
        """The engine's last word. Filled by who builds both."""
        self.admission: Admission[Line] = Admission(
            env,
            mailbox,
            Terms("server", context_tokens, config.answer_grace_s),
            lambda: self.fatal(),
            lambda row, _: rows.put("served", row),
            lambda mark: rows.marks(time.now_ns(), {mark: 1}),  # at once: no turn of the engine may follow
        )
        self.time = time
        self._env = env
        self._rows = rows
        self._timeout_s = config.request_timeout_s
        self._over = over

    def receive(self, client: Client) -> None:
        """A request arrives."""
        asked = client.asked
        caller = Caller(asked.id, asked.id, asked.group or "", asked.load, self.time.now_ns(), self._timeout_s)
        line = Line(self, client)
        try:
            line.session = self.admission.admit(params_of(asked), caller, line)
        except Rejected as rejected:
            found = rejected.problem
        except InvalidRequest as failure:
            found = of_failure(failure)
        else:
            if asked.cancel is not None and asked.cancel.after_send():
                self.hang_up(client, ClientEnd.CANCELLED)
            return
        self.admission.reject(caller, found)
        self.tell(client, Refusal(found))

    def hang_up(self, client: Client, end: ClientEnd) -> None:
        """The client closes its connection: as planned, out of patience, or because the run stops."""
        session = self.admission.open.get(client.asked.id)
        if session is not None:
            session.leave("client_gone")
        client.over(self.time.now_ns(), end)
        self._over(client)

    def tell(self, client: Client, event: Event) -> None:
        """One event reaches its client, which may hang up after it."""
        if client.take(self.time.now_ns(), event):
            self.hang_up(client, ClientEnd.CANCELLED)
        elif client.outcome is not None:
            self._over(client)

    def step(self, outputs: list[Output]) -> None:
        """See Sink: one step's news."""
        self.marked(self.time.now_ns())
        if events := self._env.events.take():
            self._rows.events(events)
        self.admission.deliver(outputs)

    def marked(self, t_ns: int, *, all_of_them: bool = False) -> None:
        """Write what was counted. Those that come often wait for the next sample, or for others to go with."""
        marks = self._env.marks
        if marks.fresh and (all_of_them or self._env.faults.armed or not marks.fresh <= OFTEN):
            self._rows.marks(t_ns, marks.take())


class Line:
    """Between a session and its client. Implements `session.Peer`: events arrive at the moment of their news."""

    __slots__ = ("_server", "client", "session")

    def __init__(self, server: VirtualServer, client: Client) -> None:
        self._server = server
        self.client = client
        self.session: Session[Line] | None = None
        """Filled when it is admitted."""

    def wake(self) -> None:
        """See Peer."""
        assert self.session is not None
        while (event := self.session.next()) is not None:
            if isinstance(event, Delay):
                self._resume_later(event.effect)
                return
            if isinstance(event, LAST) and self.session.gone is None:
                self.session.sent()
            self._server.tell(self.client, event)

    def _resume_later(self, effect: Effect) -> None:
        """This stream is late; nobody else is held up."""
        time, over = self._server.time, False

        def go_on() -> None:
            nonlocal over
            if not over:
                over = True
                effect.wait(0)
                assert self.session is not None
                self.session.resume()

        time.at(max(effect.due_ns, time.now_ns()), go_on)
        effect.on_release(lambda: time.at(time.now_ns(), go_on))
