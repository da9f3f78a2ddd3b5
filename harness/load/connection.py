"""HTTP connections that any greenlet or thread can cut at an exact moment.

`requests` hides the socket until the head has arrived. A cancel at "queued" falls before that, and a hung server may
never send a head. So our subclass of `urllib3`'s connection reports its socket when the request is sent, and
`Connection.cut` shuts the socket down: the blocked reader wakes with an end of file and reads the reason from
`Connection.cut_reason`.
"""

import contextlib
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

USER_AGENT = "seatrial/0.1 (fault-injection load test; not a browser)"
IDLE_NS_MAX = 1_000_000_000
"""Longest idle time of a connection that is used again. Servers close idle connections after about 5 s, and a request
that waits meanwhile in a busy server is lost without a word."""


class Cut(Exception):
    """A hook has cut its own connection. The exception passes through `requests`."""


class _Reporting:
    """Tells its owner when a request has been sent. To be combined with a connection of `urllib3`."""

    sock: socket.socket | None

    def __init__(self, *args: Any, owner: "Connection", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._owner = owner

    def getresponse(self) -> Any:
        self._owner.request_left(self.sock)
        return super().getresponse()  # type: ignore[misc]


class _ReportingConnection(_Reporting, HTTPConnection):
    pass


class _ReportingTlsConnection(_Reporting, HTTPSConnection):
    pass


class _ReportingPool(HTTPConnectionPool):
    ConnectionCls = _ReportingConnection


class _ReportingTlsPool(HTTPSConnectionPool):
    ConnectionCls = _ReportingTlsConnection


class _ReportingAdapter(HTTPAdapter):
    """An adapter with one connection and no retries: a repeated request would be counted once and served twice."""

    def __init__(self, owner: "Connection") -> None:
        self._owner = owner
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        # A pool passes keywords that it does not know to its connections, which get their owner that way.
        self.poolmanager.pool_classes_by_scheme = {
            "http": partial(_ReportingPool, owner=self._owner),
            "https": partial(_ReportingTlsPool, owner=self._owner),
        }


class Connection:
    """One keep-alive HTTP connection to the target, which carries one request at a time.

    Environment proxies and ~/.netrc are ignored (a netrc entry has replaced our Bearer header) and redirects are
    never followed: we load the host that was named, and no other.
    """

    def __init__(self) -> None:
        self.sock: socket.socket | None = None
        self.sent = False
        """True when the whole request has left."""
        self.cut_reason = ""
        """The reason why this side cut the connection; "" while it did not."""
        self.used_ns = 0
        """The time (ns) at which the last request ended. Filled by `ConnectionPool.release`."""
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers.clear()
        self.session.headers.update({"User-Agent": USER_AGENT, "Accept-Encoding": "identity", "Accept": "*/*"})
        self._on_sent: Callable[[], None] | None = None
        adapter = _ReportingAdapter(self)
        self.session.mount("http://", adapter)
        self.session.mount("https://", adapter)

    def post(
        self, url: str, body: bytes, headers: dict[str, str], timeout_s: float, on_sent: Callable[[], None] | None
    ) -> requests.Response:
        """Send a request and wait for the reply's head. Errors are those of `requests`, or `Cut` from `on_sent`."""
        # The socket stays: keep-alive may use it again.
        self.sent, self.cut_reason, self._on_sent = False, "", on_sent
        return self.session.post(
            url, data=body, headers=headers, stream=True, allow_redirects=False, timeout=(timeout_s, timeout_s)
        )

    def cut(self, reason: str) -> None:
        """Shut the connection down now, in both directions. The first reason stands."""
        if not self.cut_reason:
            self.cut_reason = reason
        if self.sock is not None:
            with contextlib.suppress(OSError):  # the other side has closed it already
                self.sock.shutdown(socket.SHUT_RDWR)

    def request_left(self, sock: socket.socket | None) -> None:
        """Note that a request has been sent. `urllib3`'s connection calls it before it waits for the head."""
        self.sock, self.sent = sock, True
        if self.cut_reason:
            self.cut(self.cut_reason)  # cut while it was connecting, when there was no socket to shut
        if self._on_sent is not None:
            self._on_sent()

    def drop(self) -> None:
        """Close the connection; the next request opens a new one."""
        self.cut("dropped")
        self.sock = None
        self.session.close()


class ConnectionPool:
    """Free connections, last used first, so that few stay warm and the rest are closed before the server does it."""

    def __init__(self) -> None:
        self._free: list[Connection] = []

    def acquire(self, now_ns: int) -> Connection:
        if not self._free:
            return Connection()
        connection = self._free.pop()
        if now_ns - connection.used_ns > IDLE_NS_MAX:
            connection.drop()
        return connection

    def release(self, connection: Connection, now_ns: int, reusable: bool) -> None:
        if not reusable:
            connection.drop()
        connection.used_ns = now_ns
        self._free.append(connection)

    def close(self) -> None:
        """Close all free connections."""
        while self._free:
            self._free.pop().drop()


def bearer(key_env: str | None) -> dict[str, str]:
    """The Authorization header with the key in this environment variable; {} when no variable is named.

    Raises LookupError for an unset variable, because requests without a key would only test the 401.
    """
    if not key_env:
        return {}
    key = os.environ.get(key_env)
    if not key:
        raise LookupError(f"environment variable {key_env} is not set; it must hold the target's API key")
    return {"Authorization": f"Bearer {key}"}
