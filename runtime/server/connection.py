"""The HTTP side of one session: how its writer is woken, how its connection is cut, and since when a write is stuck.

engine -> session.push ---> wake -> writer -> client
              |                       ^
              `-- client blocked and too much piled up: drop(NOT_READING) --> Cancel, connection aborted
"""

import asyncio
from collections.abc import Callable

from runtime.server.session import Session

NOT_READING = "client_does_not_read"


class Connection:
    """Implements `session.Peer`; belongs to the event loop's thread."""

    def __init__(self) -> None:
        self.first_ns: int | None = None
        """First and last token, on the loop. Filled by the meter."""
        self.last_ns: int | None = None
        self.sending_ns: int | None = None
        """Since when a write waits for the client. Filled by the writer."""
        self.abort: Callable[[], None] = lambda: None
        """Cuts the connection. Filled by the writer."""
        self._stirred = asyncio.Event()

    def wake(self) -> None:
        """See Peer."""
        self._stirred.set()

    async def stirred(self) -> None:
        """Wait until woken. The process ends what the engine never answers, so this has an end."""
        await self._stirred.wait()
        self._stirred.clear()


HttpSession = Session[Connection]


def drop(session: HttpSession, why: str) -> None:
    """Give the client up and cut its connection."""
    session.leave(why)
    session.peer.abort()


def drop_if_not_reading(session: HttpSession, now_ns: int, news_max: int, send_max_s: float) -> None:
    """A client that blocks a write for too long, or lets too much pile up meanwhile, is given up.

    News counts only while a write is stuck: a loop that was late piles up news too, and that is not the client's fault.
    """
    since_ns = session.peer.sending_ns
    if since_ns is not None and (session.backlog > news_max or now_ns - since_ns > send_max_s * 1e9):
        drop(session, NOT_READING)
