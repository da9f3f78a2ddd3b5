"""The outcome of a request, as the client saw it.

HTTP 200 does not mean success: an in-band error, a stream without `[DONE]` and a reply without `finish_reason` have
status 200, and each is its own outcome.
"""

from enum import StrEnum


class Outcome(StrEnum):
    OK = "ok"
    HTTP_ERROR = "http_error"  # any other status; with http NULL: no connection could be made at all
    INBAND_ERROR = "inband_error"  # 200, then an error object in the stream or the body
    TRUNCATED = "truncated"  # the reply broke off, or ended without [DONE]
    NO_FINISH_REASON = "no_finish_reason"  # complete, but without a reason why the text ended
    MALFORMED = "malformed"  # an event that is not the protocol's JSON
    TIMEOUT = "timeout"  # our own limit, or the server reports it (408, 504, in-band code)
    CANCELLED = "cancelled"  # we closed the connection, as planned
    REFUSED = "refused"  # 429 as status or in band: the server chose not to serve
    DROPPED = "dropped"  # never sent: the pool was full at the intended time
    UNFINISHED = "unfinished"  # no reply by the end of the run


class ClientEnd(StrEnum):
    """The way in which the client stopped reading. `decide` maps it to an outcome."""

    NOT_SENT = "not_sent"
    UNREACHED = "unreached"  # no connection
    CANCELLED = "cancelled"
    DEADLINE = "deadline"  # our limit passed
    STOPPED = "stopped"  # the run stopped under it
    CUT = "cut"  # the connection broke after the request was sent
    CLOSED = "closed"  # closed in good order, but before [DONE]
    DONE = "done"  # [DONE], or a complete body


HUNG_UP = frozenset({ClientEnd.CANCELLED, ClientEnd.DEADLINE, ClientEnd.STOPPED})
"""The ends by which the client closed the connection itself; the reply has the time in `cancel_ns`."""


# Values of `code` or `type` in an error object. A request that already streams with HTTP 200 can't get a 504 or 429,
# so servers report them in band; ours uses `type`.
TIMEOUT_WORDS = frozenset(
    {"408", "504", "timeout", "timeout_error", "request_timeout", "deadline", "deadline_exceeded"}
)
REFUSED_WORDS = frozenset({"429", "rate_limit_error", "rate_limit_exceeded", "overloaded", "refused"})


_OURS = {
    ClientEnd.NOT_SENT: Outcome.DROPPED,
    ClientEnd.STOPPED: Outcome.UNFINISHED,
    ClientEnd.CANCELLED: Outcome.CANCELLED,
    ClientEnd.DEADLINE: Outcome.TIMEOUT,
    ClientEnd.UNREACHED: Outcome.HTTP_ERROR,
}
_BY_STATUS = {429: Outcome.REFUSED, 408: Outcome.TIMEOUT, 504: Outcome.TIMEOUT}


def decide(
    end: ClientEnd,
    http: int | None = None,
    finish: str | None = None,
    error_words: tuple[str, ...] = (),
    malformed: int = 0,
) -> Outcome:
    """The outcome of one request. The first rule that applies decides.

    `error_words` are the in-band error's `code` and `type`, `malformed` counts the malformed events.
    """
    if end in _OURS:
        return _OURS[end]
    if http is None:  # no head: cut before its first byte, or not HTTP
        return Outcome.MALFORMED if malformed else Outcome.TRUNCATED
    if http != 200:
        return _BY_STATUS.get(http, Outcome.HTTP_ERROR)
    if error_words:
        return _inband(error_words)
    if malformed:
        return Outcome.MALFORMED
    if end is not ClientEnd.DONE:
        return Outcome.TRUNCATED
    return Outcome.NO_FINISH_REASON if finish is None else Outcome.OK


def _inband(words: tuple[str, ...]) -> Outcome:
    said = {word.lower() for word in words}
    if said & TIMEOUT_WORDS:
        return Outcome.TIMEOUT
    return Outcome.REFUSED if said & REFUSED_WORDS else Outcome.INBAND_ERROR
