"""Virtual time's side of serving: sessions of `runtime.server`, whose peers are clients and no sockets.

client -> receive -> Admission.admit -> engine
engine -> step(outputs) -> Session.push -> VirtualConnection.wake -> the client takes events
"""

from collections.abc import Callable

from harness.load.outcome import ClientEnd
from harness.virtual.asked import params_of
from harness.virtual.client import Client
from harness.virtual.connection import VirtualConnection
from harness.virtual.rows import Rows
from runtime.core.env import Env
from runtime.core.errors import InvalidRequest, RuntimeFailure
from runtime.core.messages import Mailbox, Output
from runtime.device.virtual_time import VirtualTime
from runtime.server.admission import Admission, Rejected, Terms
from runtime.server.config import ServerConfig
from runtime.server.errors import problem_of_failure
from runtime.server.events import Event, Refusal
from runtime.server.request import Caller

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
        self.admission: Admission[VirtualConnection] = Admission(
            env,
            mailbox,
            Terms("server", context_tokens, config.answer_grace_s),
            lambda: self.fatal(),
            lambda row, _: rows.put("served", row),
            lambda mark: rows.marks(time.now_ns(), {mark: 1}),  # at once: no turn of the engine may follow
        )
        self._time = time
        self._env = env
        self._rows = rows
        self._timeout_s = config.request_timeout_s
        self._over = over

    def receive(self, client: Client) -> None:
        """A request arrives."""
        asked = client.asked
        caller = Caller(asked.id, asked.id, asked.group, asked.load, self._time.now_ns(), self._timeout_s)
        connection = VirtualConnection(client, self._time, self._tell)
        try:
            connection.session = self.admission.admit(params_of(asked), caller, connection)
        except Rejected as rejected:
            found = rejected.problem
        except InvalidRequest as failure:
            found = problem_of_failure(failure)
        else:
            if asked.cancel is not None and asked.cancel.after_send():
                self.hang_up(client, ClientEnd.CANCELLED)
            return
        self.admission.reject(caller, found)
        self._tell(client, Refusal(found))

    def hang_up(self, client: Client, end: ClientEnd) -> None:
        """The client closes its connection: as planned, out of patience, or because the run stops."""
        session = self.admission.open.get(client.asked.id)
        if session is not None:
            session.leave("client_gone")
        client.over(self._time.now_ns(), end)
        self._over(client)

    def _tell(self, client: Client, event: Event) -> None:
        """One event reaches its client, which may hang up after it."""
        if client.take(self._time.now_ns(), event):
            self.hang_up(client, ClientEnd.CANCELLED)
        elif client.outcome is not None:
            self._over(client)

    def step(self, outputs: list[Output]) -> None:
        """See Sink: one step's news."""
        self.marked(self._time.now_ns())
        if events := self._env.events.take():
            self._rows.events(events)
        self.admission.deliver(outputs)

    def marked(self, t_ns: int, *, all_of_them: bool = False) -> None:
        """Write what was counted. Those that come often wait for the next sample, or for others to go with."""
        marks = self._env.counters
        if marks.fresh and (all_of_them or self._env.faults.armed or not marks.fresh <= OFTEN):
            self._rows.marks(t_ns, marks.take())
