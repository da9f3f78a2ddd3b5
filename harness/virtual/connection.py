"""Carries events from a serving session to its virtual client, at the times of their outputs, or later by a fault."""

from collections.abc import Callable

from harness.virtual.client import Client
from runtime.device.virtual_time import VirtualTime
from runtime.server.events import LAST, Delay, Event
from runtime.server.session import Session


class VirtualConnection:
    """Implements `session.Peer`. `deliver` gives one event to the client, which may hang up."""

    __slots__ = ("_deliver", "_time", "client", "session")

    def __init__(self, client: Client, time: VirtualTime, deliver: Callable[[Client, Event], None]) -> None:
        self.client = client
        self.session: Session[VirtualConnection] | None = None
        """Set when the request is admitted."""
        self._time = time
        self._deliver = deliver

    def wake(self) -> None:
        """See Peer."""
        session = self.session
        assert session is not None
        while (event := session.next()) is not None:
            if isinstance(event, Delay):
                event.effect.then(session.resume, self._time)  # delays this stream and no other
                return
            if isinstance(event, LAST) and session.gone is None:
                session.sent()
            self._deliver(self.client, event)
