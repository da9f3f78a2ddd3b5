"""One HTTP request of the load, from sending to its outcome.

    sent --- head --- first --- ... last --- end
      |        |         |
    queued  prefill   token N        where a planned cancel closes the connection

Whatever the server does ends in a Reply with exactly one outcome. Exceptions that leave this module are mistakes of
ours. The caller keeps the deadline and cuts an exchange that exceeds it (`Exchange.cut`); the socket's timeout is a
fallback.
"""

import contextlib
import email.utils
import http.client
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import requests
import urllib3

from harness.load.cancel import CancelAt
from harness.load.chunks import SAMPLE_CHARS_MAX, StreamStats, read_body
from harness.load.connection import Connection, Cut
from harness.load.outcome import HUNG_UP, ClientEnd, Outcome, decide
from harness.load.reader import EventReader

READ_BYTES = 65_536
BODY_BYTES_MAX = 8 << 20
CLOSING_S = 0.1  # longest wait after [DONE] for the end of the reply, which makes the connection reusable


@dataclass(frozen=True)
class HttpRequest:
    """A request to send. `timeout_s` is the time from sending to the last byte."""

    id: str
    url: str
    body: bytes
    headers: dict[str, str]
    timeout_s: float
    cancel: CancelAt | None = None
    wants_done: bool = True
    """False for a server that never sends [DONE]: an orderly end after a finish reason is then complete."""


@dataclass(frozen=True)
class Reply:
    """The result of one exchange. Times are ns of the given clock; None means not seen."""

    outcome: Outcome
    end_ns: int
    stats: StreamStats
    head_ns: int | None = None
    cancel_ns: int | None = None  # when the client closed the connection before the end of the reply
    http: int | None = None
    error: str | None = None
    retry_after_s: float | None = None
    text_sha: str | None = None
    sample: str | None = None  # only for bad outcomes
    reusable: bool = False  # the connection can carry the next request


class Exchange:
    """A request in progress. `run` blocks until it ends; `cut` ends it from another greenlet or thread."""

    def __init__(
        self,
        request: HttpRequest,
        connection: Connection,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        on_gap: Callable[[int], None] | None = None,
    ) -> None:
        self.request = request
        self._connection = connection
        self._clock_ns = clock_ns
        self._reader = EventReader(on_gap)
        self._stats = self._reader.stats
        self._text_sha: str | None = None
        self._head_ns: int | None = None
        self._cancel_ns: int | None = None
        self._leaving: threading.Timer | None = None
        self._response: requests.Response | None = None
        self._body_sample: str | None = None
        self._error: str | None = None

    def cut(self, end: ClientEnd) -> None:
        """End the request now: DEADLINE when it exceeds its timeout, STOPPED when the run ends."""
        self._cancel_ns = self._cancel_ns or self._clock_ns()
        self._connection.cut(end.value)

    def run(self) -> Reply:
        try:
            end = self._read_all()
        finally:
            if self._leaving is not None:
                self._leaving.cancel()
        end_ns = self._clock_ns()
        reason = self._connection.cut_reason
        if reason in (ClientEnd.CANCELLED, ClientEnd.DEADLINE, ClientEnd.STOPPED) and end is not ClientEnd.DONE:
            end = ClientEnd(reason)
        # A socket that timed out is closed below. An end that came before the cut counts as if there was none.
        cancel_ns = (self._cancel_ns or end_ns) if end in HUNG_UP else None
        response, stats = self._response, self._stats
        status = response.status_code if response is not None else None
        outcome = decide(end, status, stats.finish, stats.error_words, stats.malformed)
        reusable = end is ClientEnd.DONE and self._drained()
        self._close()
        if end is ClientEnd.DONE and stats.done_ns is not None:
            end_ns = stats.done_ns
        bad = outcome not in (Outcome.OK, Outcome.CANCELLED)
        return Reply(
            outcome=outcome,
            end_ns=end_ns,
            stats=stats,
            head_ns=self._head_ns,
            cancel_ns=cancel_ns,
            http=status,
            error=(stats.error or self._error) if bad else None,
            retry_after_s=retry_after_s(response.headers.get("Retry-After")) if response is not None else None,
            text_sha=self._text_sha or self._reader.text_sha(),
            sample=(self._body_sample or stats.malformed_text or stats.sample or None) if bad else None,
            reusable=reusable,
        )

    def _read_all(self) -> ClientEnd:
        try:
            self._response = response = self._connection.post(
                self.request.url, self.request.body, self.request.headers, self.request.timeout_s, self._after_send
            )
            self._head_ns = self._clock_ns()
            if response.status_code != 200:
                return self._read_refusal(response)
            if self.request.cancel is not None and self.request.cancel.due("prefill"):
                self._hang_up()
            if "json" in response.headers.get("Content-Type", ""):
                return self._read_body(response)
            return self._read_events(response)
        except Cut:
            return ClientEnd.CANCELLED
        except (requests.Timeout, urllib3.exceptions.TimeoutError) as error:
            self._error = type(error).__name__
            return ClientEnd.DEADLINE
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            # Class names only: messages contain addresses and ports, so each would become its own error class.
            self._error = _name(error)
            self._stats.malformed += _no_http(error) and self._head_ns is None
            return ClientEnd.CUT if self._connection.sent else ClientEnd.UNREACHED

    def _after_send(self) -> None:
        cancel = self.request.cancel
        if cancel is not None and cancel.after_s is not None:
            self._leaving = threading.Timer(cancel.after_s, self._leave)
            self._leaving.start()
        elif cancel is not None and cancel.due("queued"):
            self._hang_up()

    def _hang_up(self) -> None:
        self._leave()
        raise Cut

    def _leave(self) -> None:
        self._cancel_ns = self._clock_ns()
        self._connection.cut(ClientEnd.CANCELLED)

    def _read_events(self, response: requests.Response) -> ClientEnd:
        reader, stats, cancel = self._reader, self._stats, self.request.cancel
        read = response.raw.read1  # returns what has arrived; `read(n)` waits for n bytes, which falsifies times
        packed = (
            "Content-Encoding" in response.headers
        )  # although not requested; otherwise urllib3's costly buffers are avoided
        while stats.done_ns is None and stats.error is None:
            data = read(READ_BYTES, decode_content=packed)
            now_ns = self._clock_ns()
            if not data:
                if not self._connection.cut_reason:
                    reader.close(now_ns)
                    if not self.request.wants_done and stats.finish is not None and stats.error is None:
                        stats.done_ns = stats.done_ns or now_ns
                return ClientEnd.CLOSED if stats.done_ns is None else ClientEnd.DONE
            reader.feed(data, now_ns)
            if cancel is not None and stats.done_ns is None and cancel.due("token", stats.chunks):
                self._hang_up()
        return ClientEnd.DONE if stats.done_ns is not None else ClientEnd.CLOSED

    def _read_body(self, response: requests.Response) -> ClientEnd:
        body = read_up_to(response, BODY_BYTES_MAX)
        now_ns = self._clock_ns()
        if self._connection.cut_reason:
            return ClientEnd.CUT
        self._stats, self._text_sha = read_body(body, now_ns)
        return ClientEnd.DONE

    def _read_refusal(self, response: requests.Response) -> ClientEnd:
        """Read the body of a status other than 200 for the record. It does not change the outcome."""
        body = b""
        with contextlib.suppress(requests.RequestException, urllib3.exceptions.HTTPError, OSError):
            body = read_up_to(response, SAMPLE_CHARS_MAX)
        self._body_sample = body[:SAMPLE_CHARS_MAX].decode("utf-8", "backslashreplace")
        self._error = read_body(body, 0)[0].error or f"HTTP {response.status_code}"
        return ClientEnd.CUT if self._connection.cut_reason else ClientEnd.DONE

    def _drained(self) -> bool:
        """True when the reply is read to its end, so that the connection can be reused."""
        assert self._response is not None
        sock = self._connection.sock
        if sock is None:
            return False
        try:
            sock.settimeout(CLOSING_S)
            over = not self._response.raw.read1(READ_BYTES)
            sock.settimeout(self.request.timeout_s)
        except (urllib3.exceptions.HTTPError, OSError):
            return False
        return over

    def _close(self) -> None:
        if self._response is not None:
            with contextlib.suppress(urllib3.exceptions.HTTPError, OSError):
                self._response.close()


def retry_after_s(value: str | None, now_s: Callable[[], float] = time.time) -> float | None:
    """The seconds of a Retry-After header, a number or an HTTP date; None when absent or unreadable."""
    if value is None:
        return None
    try:
        seconds = float(value)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now_s())
    except ValueError:
        return None


def read_up_to(response: requests.Response, bytes_max: int, until_s: float = math.inf) -> bytes:
    """The start of a body, until it has at least `bytes_max` bytes or the monotonic clock shows `until_s`."""
    parts: list[bytes] = []
    size = 0
    while size < bytes_max and time.monotonic() < until_s:
        data = response.raw.read1(READ_BYTES, decode_content=True)
        if not data:
            break
        parts.append(data)
        size += len(data)
    return b"".join(parts)


def _name(error: BaseException) -> str:
    """The class names of an error and of its first cause: "ConnectionError from ConnectionRefusedError"."""
    inner = innermost(error)
    return type(error).__name__ if inner is error else f"{type(error).__name__} from {type(inner).__name__}"


def _no_http(error: BaseException) -> bool:
    """True when the reply was not HTTP. A connection that closed without a reply does not count."""
    inner = innermost(error)
    cut = (http.client.RemoteDisconnected, http.client.IncompleteRead)
    return isinstance(inner, http.client.HTTPException) and not isinstance(inner, cut)


def innermost(error: BaseException) -> BaseException:
    """The first error in the chain of causes."""
    for _ in range(8):
        inner = error.__cause__ or error.__context__
        if inner is None:
            break
        error = inner
    return error
