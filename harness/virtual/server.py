"""The server in virtual time: sessions of `runtime.server` whose peers are virtual clients. It has no sockets.

client -> receive -> Admission.admit -> engine
engine -> step(outputs) -> Session.push -> VirtualConnection.wake -> Client.receive
"""

from collections.abc import Callable

from harness.load.outcome import ClientEnd
from harness.virtual.client import Client
from harness.virtual.client_requests import params_of
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
from runtime.server.request import Caller, ServedRow
from runtime.server.session import Session

FREQUENT = frozenset({"kv.evict", "kv.unpublished", "prefill.chunked", "prefix.miss", "prefix.hit", "prefix.full_hit"})
"""Counters that change in nearly every step."""


class VirtualServer:
    """Implements the engine's Sink. `ended` is called with each client whose request has ended."""

    def __init__(
        self,
        env: Env,
        time: VirtualTime,
        mailbox: Mailbox,
        rows: Rows,
        context_tokens: int,
        config: ServerConfig,
        ended: Callable[[Client], None],
    ) -> None:
        self.fatal: Callable[[], RuntimeFailure | None] = lambda: None
        """Returns the failure that ended the engine. Set once the engine exists."""
        self.generated: Callable[[str], int | None] = lambda server_id: None
        """Returns the number of tokens generated for an open request. Set once the engine exists."""
        self.admission: Admission[VirtualConnection] = Admission(
            env,
            mailbox,
            Terms("server", context_tokens, config.answer_grace_s),
            lambda: self.fatal(),
            self._record,
            # Written at once, because no step of the engine may follow.
            lambda counter: rows.counters(time.now_ns(), {counter: 1}),
            lambda server_id: self.generated(server_id),
        )
        self._time = time
        self._env = env
        self._rows = rows
        self._timeout_s = config.request_timeout_s
        self._ended = ended

    def receive(self, client: Client) -> None:
        """Admit the client's request, or refuse it at once."""
        request = client.request
        caller = Caller(request.id, request.id, request.group, request.load, self._time.now_ns(), self._timeout_s)
        connection = VirtualConnection(client, self._time, self._deliver)
        try:
            connection.session = self.admission.admit(params_of(request), caller, connection)
        except Rejected as rejected:
            problem = rejected.problem
        except InvalidRequest as failure:
            problem = problem_of_failure(failure)
        else:
            if client.cancel is not None and client.cancel.due("queued"):
                self.hang_up(client, ClientEnd.CANCELLED)
            return
        self.admission.reject(caller, problem)
        self._deliver(client, Refusal(problem))

    def hang_up(self, client: Client, end: ClientEnd) -> None:
        """The client closes its connection: as planned, at its timeout, or because the run ends."""
        session = self.admission.open.get(client.request.id)
        if session is not None:
            session.leave("client_gone")
        client.end(self._time.now_ns(), end)
        self._ended(client)

    def _record(self, row: ServedRow, session: Session[VirtualConnection] | None) -> None:
        self._rows.put("served", row)
        if session is not None and (hang_up := session.hang_up_row(row.proc)) is not None:
            self._rows.put("hang_up", hang_up)

    def step(self, outputs: list[Output]) -> None:
        """See Sink: take the outputs of one step."""
        self.write_counters(everything=False)
        if events := self._env.events.take():
            self._rows.events(events)
        self.admission.deliver(outputs)

    def write_counters(self, *, everything: bool = True) -> None:
        """Write the counts since the last call. Unless `everything`, frequent counters wait for others or for the next
        sample."""
        counters = self._env.counters
        if counters.fresh and (everything or self._env.faults.armed or not counters.fresh <= FREQUENT):
            self._rows.counters(self._time.now_ns(), counters.take())

    def _deliver(self, client: Client, event: Event) -> None:
        """Give one event to its client, which may hang up after it. A client that has left reads nothing more."""
        if client.outcome is not None:
            return
        if client.receive(self._time.now_ns(), event):
            self.hang_up(client, ClientEnd.CANCELLED)
        elif client.outcome is not None:
            self._ended(client)
