"""A few requests before the load, so that a wrong address, a web page or a dead server gives one clear message.

    GET /v1/models -> one token by each API -> one token as a stream, with the fields of the load's requests

The stream shows the target's dialect. The load omits fields that the server refuses, and does not require [DONE] from
a server that never sends it. An invalid reply of `/v1/models` is ignored, because some servers answer 500 there.
"""

import json
import os
import threading
import time
from dataclasses import dataclass
from typing import Any

import requests
from urllib3.exceptions import HTTPError

from harness.load.connection import Connection
from harness.load.exchange import Exchange, HttpRequest, Reply
from harness.load.outcome import ClientEnd, Outcome

USER_AGENT = "seatrial (fault injection and soak trials)"
BODY_BYTES_MAX = 1 << 20
LEFT_OUT: tuple[tuple[str, ...], ...] = ((), ("stream_options",), ("stream_options", "seed"))
"""Sets of fields that strict servers refuse, in the order in which they are left out."""
_ASK = "Say one word."


class TargetProblem(Exception):
    """The target can't be tested. The text is one line for the user."""


class NotReady(TargetProblem):
    """The target answers HTTP 503: a server that was just started may still load its model."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of the first requests."""

    model: str
    api: str
    """completions | chat: the first of the two that works."""
    wants_done: bool = True
    """False: the target's streams end without [DONE]."""
    leave_out: tuple[str, ...] = ()
    """Request fields that the target refuses."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The peculiarities of the target, as texts."""
        found = []
        if not self.wants_done:
            found.append("the target's streams end without [DONE]; a stream with a finish reason counts as complete")
        if self.leave_out:
            found.append(f"the target refuses {' and '.join(self.leave_out)}; the load leaves them out")
        return tuple(found)


def first_answer(url: str, model: str | None, key_env: str | None, timeout_s: float = 60.0) -> Answer:
    """Request one token from `url`. Raises TargetProblem with the problem and the remedy."""
    session = requests.Session()
    session.trust_env = False
    session.headers["User-Agent"] = USER_AGENT
    if key_env is not None:
        key = os.environ.get(key_env)
        if not key:
            raise TargetProblem(f"target.key_env names {key_env}, which is not set; export it first")
        session.headers["Authorization"] = f"Bearer {key}"
    try:
        name = model or _model_of(session, url)
        if name is None:
            raise TargetProblem(f"{url} does not list its models; name one with target.model or --model")
        return _ask(session, url, name, timeout_s)
    finally:
        session.close()


def _model_of(session: requests.Session, url: str) -> str | None:
    """The first model that the server lists; None when the list is invalid."""
    status, _, text = _send(session, "GET", f"{url}/v1/models", None, 10.0)
    try:
        return str(json.loads(text)["data"][0]["id"]) if status == 200 else None
    except (ValueError, LookupError, TypeError):
        return None


def _ask(session: requests.Session, url: str, model: str, timeout_s: float) -> Answer:
    """Try both APIs; return the first that gives a valid reply, plain and as a stream. Raises TargetProblem."""
    tries: list[tuple[str, str, dict[str, Any]]] = [
        ("completions", "/v1/completions", {"prompt": _ASK}),
        ("chat", "/v1/chat/completions", {"messages": [{"role": "user", "content": _ASK}]}),
    ]
    said: list[str] = []
    kind = TargetProblem
    for api, path, question in tries:
        body = {"model": model, "max_tokens": 1, **question}
        status, content, text = _send(session, "POST", url + path, body, timeout_s)
        wrong = _wrong(status, content, text)
        kind = NotReady if status == 503 else kind
        if wrong is None:
            found = _ask_for_stream(session, url + path, body, Answer(model, api), timeout_s)
            if isinstance(found, Answer):
                return found
            wrong = found
        said.append(f"{path}: {wrong}")
    raise kind(f"{url} does not serve as an OpenAI-compatible server: {'; '.join(said)}")


def _ask_for_stream(
    session: requests.Session, url: str, body: dict[str, Any], so_far: Answer, timeout_s: float
) -> Answer | str:
    """Return the dialect of the target's streams, or a text that describes the problem."""
    fields = {"temperature": 0, "seed": 0, "stream": True, "stream_options": {"include_usage": True}}
    wrong = ""
    for leave_out in LEFT_OUT:
        asked = {**body, **{name: value for name, value in fields.items() if name not in leave_out}}
        reply = _stream(session, url, asked, timeout_s)
        if reply.http in (400, 422):
            wrong = wrong or f"as a stream: {reply.outcome} (HTTP {reply.http} {_short(reply.sample or '')})"
            continue
        in_order = reply.outcome is Outcome.TRUNCATED and reply.error is None and reply.stats.finish is not None
        if in_order or reply.outcome in (Outcome.OK, Outcome.NO_FINISH_REASON):
            return Answer(so_far.model, so_far.api, not in_order, leave_out)
        http = "" if reply.http is None else f"HTTP {reply.http}, "
        return f"as a stream: {reply.outcome} ({http}{_short(reply.error or reply.sample or '')})"
    return wrong


def _stream(session: requests.Session, url: str, body: dict[str, Any], timeout_s: float) -> Reply:
    """Send one streamed request with the load's own reader; it is cut after `timeout_s`."""
    headers = {"Content-Type": "application/json"}
    if "Authorization" in session.headers:
        headers["Authorization"] = str(session.headers["Authorization"])
    connection = Connection()
    exchange = Exchange(HttpRequest("preflight", url, json.dumps(body).encode(), headers, timeout_s), connection)
    patience = threading.Timer(timeout_s, exchange.cut, [ClientEnd.DEADLINE])
    patience.daemon = True
    patience.start()
    try:
        return exchange.run()
    finally:
        patience.cancel()
        connection.drop()


def _send(session: requests.Session, method: str, url: str, body: object, timeout_s: float) -> tuple[int, str, str]:
    """Return status, content type and the first BODY_BYTES_MAX bytes of the body as text. Raises TargetProblem."""
    try:
        asked = (5.0, timeout_s)
        with session.request(method, url, json=body, timeout=asked, allow_redirects=False, stream=True) as reply:
            kind = reply.headers.get("Content-Type", "no content type").partition(";")[0]
            return reply.status_code, kind, _text(reply, timeout_s)
    except requests.Timeout as error:
        raise TargetProblem(f"{url}: no answer within {timeout_s:g} s") from error
    except requests.ConnectionError as error:
        refused = "refused" in str(error).lower()
        what = "nothing listens there" if refused else f"the connection failed ({_root(error)})"
        raise TargetProblem(f"{url}: {what}; start the server or correct its address") from error
    except (requests.RequestException, HTTPError) as error:
        raise TargetProblem(f"{url}: {type(error).__name__}: {_short(str(error))}") from error


def _text(reply: requests.Response, timeout_s: float) -> str:
    """The start of a body, bounded in size and time, because a page may never end."""
    parts: list[bytes] = []
    size, until_s = 0, time.monotonic() + timeout_s
    while size < BODY_BYTES_MAX and time.monotonic() < until_s:
        data = reply.raw.read1(65_536, decode_content=True)
        if not data:
            break
        parts.append(data)
        size += len(data)
    return b"".join(parts).decode("utf-8", "replace")


def _wrong(status: int, kind: str, text: str) -> str | None:
    """The problem of a reply to a one-token request; None when it is a completion."""
    if status != 200:
        return f"HTTP {status} {_short(text)}"
    try:
        value = json.loads(text)
    except ValueError:
        return f"HTTP 200 with {kind} that is not JSON"
    choices = value.get("choices") if isinstance(value, dict) else None
    return None if isinstance(choices, list) and choices else "HTTP 200 with JSON that has no choices"


def _short(text: str) -> str:
    flat = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return f'"{flat[:80]}"' if flat else "and no text"


def _root(error: BaseException) -> str:
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return type(error).__name__
