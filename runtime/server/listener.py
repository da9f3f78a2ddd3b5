"""Listening sockets with uvicorn's HTTP/1.1 protocol, and a call that cuts a connection in the middle of an answer.

`transport.abort()` closes the socket at once: bytes in the kernel are delivered, the last chunk is not, so a client
sees a chunked body without its end. An error raised in the application would first flush, and a client that does not
read can block that for ever.
"""

import asyncio
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

_ABORT = "seatrial.abort"
_KEEP_ALIVE_S = 65
_BACKLOG = 2048
# Small, so that a client that does not read is noticed after some hundred tokens and not after megabytes.
_SEND_BUFFER_BYTES = 64 * 1024


def abort_of(scope: Scope) -> Callable[[], None]:
    """The call that cuts this request's connection."""
    abort: Callable[[], None] = scope["extensions"][_ABORT]
    return abort


class CuttableProtocol(H11Protocol):
    """HTTP/1.1 protocol that puts the transport's `abort` into each request's scope."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wraps the application of one connection: every request on it gets `abort` of the transport."""
        super().connection_made(transport)
        app = self.app

        async def with_abort(scope: Scope, receive: Receive, send: Send) -> None:
            scope.setdefault("extensions", {})[_ABORT] = transport.abort
            await app(scope, receive, send)

        self.app = with_abort


class Listener:
    """One application on one socket. It has no signal handlers and no loop, so several can share a process."""

    def __init__(self, app: ASGIApp, sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self._sock = sock
        self._state = ServerState()
        self._config = uvicorn.Config(
            app,
            http=CuttableProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
        )
        self._config.load()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port on which it listens."""
        port: int = self._sock.getsockname()[1]
        return port

    async def start(self) -> None:
        """Accepts connections from now on."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: CuttableProtocol(self._config, self._state, {}, loop), sock=self._sock, backlog=_BACKLOG
        )

    async def stop(self, grace_s: float) -> None:
        """Accepts no more connections, waits up to `grace_s` seconds for open answers, then cuts the rest."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=grace_s)
        for connection in list(self._state.connections):
            connection.transport.abort()
        for task in list(self._state.tasks):
            task.cancel()
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=grace_s)
