"""Between a session and its virtual client: each event arrives at the moment of its news, unless a fault delays it."""

from collections.abc import Callable

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
                event.effect.then(session.resume, self._time)  # this stream is late; nobody else is held up
                return
            if isinstance(event, LAST) and session.gone is None:
                session.sent()
            self._tell(self.client, event)
