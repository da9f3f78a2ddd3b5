"""The HTTP side of one session: it wakes the writer, cuts the connection, and knows since when a write is blocked.

engine -> session.push ---> wake -> writer -> client
              |
              `-- the client blocks a write and too many outputs wait --> Cancel, connection aborted
"""

import asyncio
from collections.abc import Callable

from runtime.server.config import ServerConfig
from runtime.server.session import Session

NOT_READING = "client_does_not_read"


class Connection:
    """Implements `session.Peer`. All calls come from the event loop's thread."""

    def __init__(self) -> None:
        self.first_ns: int | None = None
        """Times of the first and the last token on the event loop, set by the meter."""
        self.last_ns: int | None = None
        self.sending_ns: int | None = None
        """Start of the write that waits for the client, set by the writer; None when none waits."""
        self.abort: Callable[[], None] = lambda: None
        """Cuts the connection. Set by the writer."""
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """See Peer."""
        self._woken.set()

    async def woken(self) -> None:
        """Waits for `wake`. The wait always ends, since the server ends requests that the engine never ends."""
        await self._woken.wait()
        self._woken.clear()


HttpSession = Session[Connection]


def drop_if_not_reading(session: HttpSession, now_ns: int, config: ServerConfig) -> None:
    """Cancels the request and cuts the connection of a client that blocks a write for more than `send_max_s`, or while
    more than `stream_events_max` outputs wait.

    Waiting outputs count only while a write is blocked: a late event loop makes outputs wait too.
    """
    since_ns = session.peer.sending_ns
    if since_ns is None:
        return
    if session.backlog > config.stream_events_max or now_ns - since_ns > config.send_max_s * 1e9:
        session.leave(NOT_READING)
        session.peer.abort()
