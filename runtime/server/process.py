"""The server process: one event loop, the engine's thread, two listeners, and the ways in which it ends.

run ---> engine starts ---> listeners ---> ready line ---> maintenance (every 50 ms) ... until
         SIGTERM, SIGINT   new requests are refused, open ones may go on for `stop_grace_s`   exit 0
         engine fatal      each open request gets one error                                   exit 70
         parent has ended  it stops at once                                                   exit 71
"""

import asyncio
import json
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable

from faults import FaultSpec, SpecError
from runtime.core.env import Event
from runtime.core.messages import End, Output
from runtime.guard.standstill import StandstillWatch
from runtime.server.admin import Admin
from runtime.server.admission import Admission, Terms
from runtime.server.app import Endpoints
from runtime.server.config import ADMIN_TOKEN_ENV, ServerConfig, is_loopback
from runtime.server.connection import Connection, HttpSession, drop_if_not_reading
from runtime.server.errors import problem
from runtime.server.flags import EXIT_FATAL, EXIT_ORPHAN, EXIT_STOPPED
from runtime.server.journal import Journal
from runtime.server.listener import Listener
from runtime.server.meter import Meter
from runtime.server.ports import RuntimeHandle
from runtime.server.request import ServedRow

_TICK_S = 0.05


class ServerProcess:
    """One server process; `run` needs an event loop of its own. Implements the engine's Sink."""

    loop: asyncio.AbstractEventLoop

    def __init__(
        self, runtime: RuntimeHandle, config: ServerConfig, journal: Journal, parent_pid: int | None = None
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._journal = journal
        self._parent_pid = parent_pid
        self._recorded: Counter[str] = Counter()
        self._code = EXIT_STOPPED
        self._stopping = asyncio.Event()
        self.empty = asyncio.Event()
        """Set while no request is open."""
        self.empty.set()
        env = runtime.env
        terms = Terms(f"server-{os.getpid()}", runtime.context_tokens, config.answer_grace_s, runtime.tokenizer.decode)
        self.admission: Admission[Connection] = Admission(
            env,
            runtime.mailbox,
            terms,
            lambda: runtime.fatal,
            self._record,
            env.counters.hit,
            runtime.generated,
            self._set_empty,
        )
        self._meter = Meter(runtime, self.admission)
        self._standstill = StandstillWatch(env, config.health_stall_s, runtime.standstill)

    async def run(
        self,
        sock: socket.socket,
        admin_sock: socket.socket | None,
        on_ready: Callable[[str], None],
        persisted: list[FaultSpec] | None = None,
    ) -> int:
        """Serves until it is stopped, and returns the exit code. `on_ready` gets the ready line; the faults `persisted`
        are armed again first."""
        loop, runtime = asyncio.get_running_loop(), self._runtime
        endpoints = Endpoints(runtime, self.admission, self._config, self._meter, self._journal)
        listeners = [Listener(endpoints.app(), sock)]
        if admin_sock is not None:
            # Checked again here, since a supervisor may have bound it: faults must not be armed over a network.
            assert is_loopback(admin_sock.getsockname()[0]), "the admin port belongs on loopback"
            token = os.environ[ADMIN_TOKEN_ENV]
            admin = Admin(runtime, self.admission, self.empty, self._journal, self.flush)
            listeners.append(Listener(admin.app(token), admin_sock))
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
        self._rearm(persisted or [])
        self.loop = loop
        runtime.start(self)
        for listener in listeners:
            await listener.start()
        on_ready(self._ready_line(listeners))
        await self._wait_until(self._stopping)
        await self._end(listeners)
        return self._code

    def stop(self) -> None:
        """Asks `run` to end. Call it on the loop's thread; a second call changes nothing."""
        self._stopping.set()

    def flush(self) -> None:
        """Writes the counts since the last call to the journal."""
        total = Counter(dict(self._runtime.env.counters.total))
        fresh = total - self._recorded
        self._recorded = total
        for name, n in fresh.items():
            self._journal.tell("mark", {"name": name, "t_ns": self._runtime.env.clock.now_ns(), "n": n})

    def step(self, outputs: list[Output]) -> None:
        """Passes a whole step from the engine's thread to the loop with one call, with the events since the last step.
        See Sink. A step without outputs and events does not wake the loop."""
        events = self._runtime.env.events.take()
        if not outputs and not events:
            return
        try:
            self.loop.call_soon_threadsafe(self._deliver, outputs, events)
        except RuntimeError:
            # The loop is closed: the process is ending, and every session has ended.
            if not self.loop.is_closed():
                raise

    # -- while it runs ------------------------------------------------------------------------------------------------

    def _deliver(self, outputs: list[Output], events: list[Event]) -> None:
        """Passes the outputs and events of one step to journal, meter and sessions."""
        now_ns, sessions = self._runtime.env.clock.now_ns(), self.admission.open
        for event in events:
            self._journal.event(event.t_ns, event.kind, *event.columns)
        for output in outputs:
            session = sessions.get(output.request_id)
            if session is None:
                continue  # the server has ended this request and written its row
            try:
                if output.tokens:
                    self._meter.tokens(session, len(output.tokens), now_ns)
                session.push(output)
                drop_if_not_reading(session, now_ns, self._config)
            except Exception as error:  # the other sessions get their outputs; this one is cut
                self._runtime.env.tell_exception(error)
                session.fail()
                session.peer.abort()
        if self._runtime.fatal is not None:
            self._stopping.set()

    def _set_empty(self, empty: bool) -> None:
        if empty:
            self.empty.set()
        else:
            self.empty.clear()

    def _record(self, row: ServedRow, session: HttpSession | None) -> None:
        """Writes the row of a request that has ended, and counts it."""
        if session is not None:
            self._meter.request_ended(session, row.outcome, row.finish, row.end_ns)
            if (hang_up := session.hang_up_row(row.proc)) is not None:
                self._journal.tell("hang_up", hang_up._asdict())
        self._journal.tell("served", row._asdict())

    async def _wait_until(self, event: asyncio.Event, bound_s: float | None = None) -> None:
        """Waits for `event`, at most `bound_s` seconds, with maintenance at each tick."""
        loop = asyncio.get_running_loop()
        end_s = None if bound_s is None else loop.time() + bound_s
        while not event.is_set() and (end_s is None or loop.time() < end_s):
            try:
                async with asyncio.timeout(_TICK_S if end_s is None else min(_TICK_S, end_s - loop.time())):
                    await event.wait()
            except TimeoutError:
                self._maintain()

    def _maintain(self) -> None:
        """Does the work that goes on even when the engine hangs: events, expired faults, slow clients, journal,
        parent."""
        now_ns = self._runtime.env.clock.now_ns()
        self._deliver([], self._runtime.env.events.take())
        if self._parent_pid is not None and os.getppid() != self._parent_pid:
            self._code = EXIT_ORPHAN
            self._stopping.set()
        if self._runtime.fatal is not None:
            self._stopping.set()
        if self._runtime.env.faults.armed:
            self._runtime.env.faults.tick(now_ns)
        self._standstill.look()
        for session in list(self.admission.open.values()):
            drop_if_not_reading(session, now_ns, self._config)
        self.admission.end_overdue()
        self.flush()

    def _rearm(self, persisted: list[FaultSpec]) -> None:
        """Arms faults with `persist` again after a restart; otherwise the restart would silently end them."""
        if not persisted:
            return
        try:
            self._runtime.env.faults.arm(persisted)
        except SpecError as error:
            self._journal.event(self._runtime.env.clock.now_ns(), "rearm_failed", None, str(error))

    def _ready_line(self, listeners: list[Listener]) -> str:
        ports = [listener.port for listener in listeners]
        named = dict(zip(("port", "admin_port"), ports, strict=False))
        return json.dumps({"e": "ready", **named, "pid": os.getpid()})

    # -- the end ------------------------------------------------------------------------------------------------------

    async def _end(self, listeners: list[Listener]) -> None:
        fatal = self._runtime.fatal
        # A dead engine thread makes no further step that would deliver these events.
        self._deliver([], self._runtime.env.events.take())
        if fatal is not None:
            self._code = EXIT_FATAL
            # No request may end with 200 after this. The engine has ended the requests it knew; this ends the rest.
            self.admission.end_all(End("fatal", fatal.http, fatal.code, str(fatal)))
            await self._wait_until(self.empty, self._config.fatal_grace_s)
        elif self._code == EXIT_STOPPED:
            self.admission.closed = problem(503, "the server is shutting down", "shutting_down")
            # The trial is over: no open request may be delayed by its faults.
            self._runtime.env.faults.heal_all("shutdown")
            await self._wait_until(self.empty, self._config.stop_grace_s)
        self.admission.end_all(End("http_error", 503, "shutting_down", "the server is shutting down"))
        for listener in listeners:
            await listener.stop(_TICK_S if self._code == EXIT_ORPHAN else 1.0)
        self._runtime.env.faults.clean()
        self.flush()
        self._runtime.close()
