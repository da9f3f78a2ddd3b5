"""Between a session and its virtual client: each event arrives at the moment of its news, unless a fault delays it."""

from collections.abc import Callable

from faults import Effect
from harness.virtual.client import Client
from runtime.device.virtual_time import VirtualTime
from runtime.server.events import LAST, Delay, Event
from runtime.server.session import Session


class VirtualConnection:
    """Implements `session.Peer`. `tell` hands one event to the client, which may hang up."""

    __slots__ = ("_tell", "_time", "client", "session")

    def __init__(self, client: Client, time: VirtualTime, tell: Callable[[Client, Event], None]) -> None:
        self.client = client
        self.session: Session[VirtualConnection] | None = None
        """Filled when it is admitted."""
        self._time = time
        self._tell = tell

    def wake(self) -> None:
        """See Peer."""
        session = self.session
        assert session is not None
        while (event := session.next()) is not None:
            if isinstance(event, Delay):
                self._resume_later(session, event.effect)
                return
            if isinstance(event, LAST) and session.gone is None:
                session.sent()
            self._tell(self.client, event)

    def _resume_later(self, session: "Session[VirtualConnection]", effect: Effect) -> None:
        """This stream is late; nobody else is held up."""
        time, over = self._time, False

        def go_on() -> None:
            nonlocal over
            if not over:
                over = True
                effect.wait(0)
                session.resume()

        time.at(max(effect.due_ns, time.now_ns()), go_on)
        effect.on_release(lambda: time.at(time.now_ns(), go_on))
