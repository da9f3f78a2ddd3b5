"""One HTTP connection with its socket in reach, so that a request can be cut at an exact moment by anyone.

`requests` hides the socket until the head has arrived. A cancel "queued" falls before that, and a hung server may
never send a head; so our connection class reports its socket when the request is sent, and `Wire.cut` shuts it
down from any greenlet or thread: the blocked reader wakes with an end of file and finds the reason here.
"""

import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

USER_AGENT = "seatrial/0.1 (fault-injection load test; not a browser)"
IDLE_NS_MAX = 2_000_000_000  # servers close idle connections after some 5 s; a reused one must not lose that race


class Cut(Exception):
    """Raised through `requests` by a hook that has cut its own connection."""


@dataclass
class Wire:
    """What one session has on the line. `reason` is why we cut it, "" while we did not."""

    sock: socket.socket | None = None
    sent: bool = False  # the whole request has left
    reason: str = ""
    on_sent: Callable[[], None] | None = None

    def reset(self, on_sent: Callable[[], None] | None) -> None:
        """Ready for the next request. The socket stays: keep-alive may use it again."""
        self.sent, self.reason, self.on_sent = False, "", on_sent

    def cut(self, reason: str) -> None:
        """Shut the connection down now, both ways. The first reason stands."""
        if not self.reason:
            self.reason = reason
        if self.sock is not None:
            with contextlib.suppress(OSError):  # closed by the other side already: as good
                self.sock.shutdown(socket.SHUT_RDWR)

    def request_left(self, sock: socket.socket | None) -> None:
        """Called by the connection between sending and waiting for the head."""
        self.sock, self.sent = sock, True
        if self.reason:
            self.cut(self.reason)  # cut while it was connecting, when there was no socket to shut
        if self.on_sent is not None:
            self.on_sent()


class _WiredConnection(HTTPConnection):
    def __init__(self, *args: Any, wire: Wire, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._wire = wire

    def getresponse(self) -> Any:
        self._wire.request_left(self.sock)
        return super().getresponse()


class _WiredTlsConnection(HTTPSConnection):
    def __init__(self, *args: Any, wire: Wire, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._wire = wire

    def getresponse(self) -> Any:
        self._wire.request_left(self.sock)
        return super().getresponse()


class _WiredPool(HTTPConnectionPool):
    ConnectionCls = _WiredConnection


class _WiredTlsPool(HTTPSConnectionPool):
    ConnectionCls = _WiredTlsConnection


class _WireAdapter(HTTPAdapter):
    """One connection, no retries: a request that we repeat silently would be counted once and served twice."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        # A pool hands keywords it does not know to its connections: that is how they get the wire.
        self.poolmanager.pool_classes_by_scheme = {
            "http": partial(_WiredPool, wire=self._wire),
            "https": partial(_WiredTlsPool, wire=self._wire),
        }


class Line:
    """A `requests` session with its wire, for one request at a time.

    Environment proxies and ~/.netrc are ignored (a netrc entry has replaced our Bearer header) and redirects are
    never followed: we load the host that was named, and no other.
    """

    def __init__(self) -> None:
        self.wire = Wire()
        self.used_ns = 0
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers.clear()
        self.session.headers.update({"User-Agent": USER_AGENT, "Accept-Encoding": "identity", "Accept": "*/*"})
        adapter = _WireAdapter(self.wire)
        self.session.mount("http://", adapter)
        self.session.mount("https://", adapter)

    def post(
        self, url: str, body: bytes, headers: dict[str, str], timeout_s: float, on_sent: Callable[[], None] | None
    ) -> requests.Response:
        """Send and wait for the head. Errors are those of `requests`, or `Cut` from `on_sent`."""
        self.wire.reset(on_sent)
        return self.session.post(
            url, data=body, headers=headers, stream=True, allow_redirects=False, timeout=(timeout_s, timeout_s)
        )

    def drop(self) -> None:
        """Close the connection; the next request opens a new one."""
        self.wire.cut("dropped")
        self.wire.sock = None
        self.session.close()


class Lines:
    """Free lines, last used first, so that few stay warm and the rest are closed before the server does it."""

    def __init__(self) -> None:
        self._free: list[Line] = []

    def take(self, now_ns: int) -> Line:
        if not self._free:
            return Line()
        line = self._free.pop()
        if now_ns - line.used_ns > IDLE_NS_MAX:
            line.drop()
        return line

    def give(self, line: Line, now_ns: int, reusable: bool) -> None:
        if not reusable:
            line.drop()
        line.used_ns = now_ns
        self._free.append(line)

    def close(self) -> None:
        """Close all free lines."""
        while self._free:
            self._free.pop().drop()


def first_model(url: str, key_env: str | None = None, timeout_s: float = 10.0) -> str:
    """The first model that the target names under /v1/models. Raises LookupError when it names none."""
    line = Line()
    try:
        where = f"{url.rstrip('/')}/v1/models"
        reply = line.session.get(where, headers=bearer(key_env), timeout=timeout_s, allow_redirects=False)
        return str(reply.json()["data"][0]["id"])
    except (requests.RequestException, ValueError, KeyError, IndexError, TypeError) as error:
        raise LookupError(f"{url} names no model ({type(error).__name__}); say which one to use") from error
    finally:
        line.drop()


def bearer(key_env: str | None) -> dict[str, str]:
    """The Authorization header from the environment variable of that name; {} when none is named.

    A named but unset variable is an error: sending without the key would test the server's 401.
    """
    if not key_env:
        return {}
    key = os.environ.get(key_env)
    if not key:
        raise LookupError(f"environment variable {key_env} is not set; it must hold the target's API key")
    return {"Authorization": f"Bearer {key}"}
