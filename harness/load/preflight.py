"""A few requests before the load, so that a wrong address, a web page or a dead server gives one clear message.

    GET /v1/models -> one token by each API -> one token as a stream, with the fields of the load's requests

The stream shows the target's dialect. The load omits fields that the server refuses, and does not require [DONE] from
a server that never sends it. An invalid reply of `/v1/models` is ignored, because some servers answer 500 there.
"""

import json
import threading
import time
from dataclasses import dataclass
from typing import Any

import requests
from urllib3.exceptions import HTTPError

from harness.load.connection import Connection, bearer
from harness.load.exchange import Exchange, HttpRequest, Reply, innermost, read_up_to
from harness.load.outcome import ClientEnd, Outcome
from harness.report.sanitise import one_line

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
    try:
        key = bearer(key_env)
    except LookupError as error:
        raise TargetProblem(str(error)) from None
    name = model or _model_of(key, url)
    if name is None:
        raise TargetProblem(f"{url} does not list its models; name one with target.model or --model")
    return _ask(key, url, name, timeout_s)


def _model_of(key: dict[str, str], url: str) -> str | None:
    """The first model that the server lists; None when the list is invalid."""
    status, _, text = _send(key, "GET", f"{url}/v1/models", None, 10.0)
    try:
        return str(json.loads(text)["data"][0]["id"]) if status == 200 else None
    except (ValueError, LookupError, TypeError):
        return None


def _ask(key: dict[str, str], url: str, model: str, timeout_s: float) -> Answer:
    """Try both APIs; return the first that gives a valid reply, plain and as a stream. Raises TargetProblem."""
    tries: list[tuple[str, str, dict[str, Any]]] = [
        ("completions", "/v1/completions", {"prompt": _ASK}),
        ("chat", "/v1/chat/completions", {"messages": [{"role": "user", "content": _ASK}]}),
    ]
    said: list[str] = []
    kind = TargetProblem
    for api, path, question in tries:
        body = {"model": model, "max_tokens": 1, **question}
        status, content, text = _send(key, "POST", url + path, body, timeout_s)
        wrong = _wrong(status, content, text)
        kind = NotReady if status == 503 else kind
        if wrong is None:
            found = _ask_for_stream(key, url + path, body, Answer(model, api), timeout_s)
            if isinstance(found, Answer):
                return found
            wrong = found
        said.append(f"{path}: {wrong}")
    raise kind(f"{url} does not serve as an OpenAI-compatible server: {'; '.join(said)}")


def _ask_for_stream(
    key: dict[str, str], url: str, body: dict[str, Any], so_far: Answer, timeout_s: float
) -> Answer | str:
    """Return the dialect of the target's streams, or a text that describes the problem."""
    fields = {"temperature": 0, "seed": 0, "stream": True, "stream_options": {"include_usage": True}}
    wrong = ""
    for leave_out in LEFT_OUT:
        asked = {**body, **{name: value for name, value in fields.items() if name not in leave_out}}
        reply = _stream(key, url, asked, timeout_s)
        if reply.http in (400, 422):
            wrong = wrong or f"as a stream: {reply.outcome} (HTTP {reply.http} {_short(reply.sample or '')})"
            continue
        in_order = reply.outcome is Outcome.TRUNCATED and reply.error is None and reply.stats.finish is not None
        if in_order or reply.outcome in (Outcome.OK, Outcome.NO_FINISH_REASON):
            return Answer(so_far.model, so_far.api, not in_order, leave_out)
        http = "" if reply.http is None else f"HTTP {reply.http}, "
        return f"as a stream: {reply.outcome} ({http}{_short(reply.error or reply.sample or '')})"
    return wrong


def _stream(key: dict[str, str], url: str, body: dict[str, Any], timeout_s: float) -> Reply:
    """Send one streamed request with the load's own reader; it is cut after `timeout_s`."""
    headers, connection = {"Content-Type": "application/json", **key}, Connection()
    exchange = Exchange(HttpRequest("preflight", url, json.dumps(body).encode(), headers, timeout_s), connection)
    patience = threading.Timer(timeout_s, exchange.cut, [ClientEnd.DEADLINE])
    patience.daemon = True
    patience.start()
    try:
        return exchange.run()
    finally:
        patience.cancel()
        connection.drop()


def _send(key: dict[str, str], method: str, url: str, body: object, timeout_s: float) -> tuple[int, str, str]:
    """Return status, content type and the first BODY_BYTES_MAX bytes of the body as text. Raises TargetProblem."""
    session, asked = Connection().session, (5.0, timeout_s)
    try:
        with session.request(
            method, url, json=body, headers=key, timeout=asked, allow_redirects=False, stream=True
        ) as reply:
            kind = reply.headers.get("Content-Type", "no content type").partition(";")[0]
            body_start = read_up_to(reply, BODY_BYTES_MAX, time.monotonic() + timeout_s)  # a page may never end
            return reply.status_code, kind, body_start.decode("utf-8", "replace")
    except requests.Timeout as error:
        raise TargetProblem(f"{url}: no answer within {timeout_s:g} s") from error
    except requests.ConnectionError as error:
        refused = "refused" in str(error).lower()
        what = "nothing listens there" if refused else f"the connection failed ({type(innermost(error)).__name__})"
        raise TargetProblem(f"{url}: {what}; start the server or correct its address") from error
    except (requests.RequestException, HTTPError) as error:
        raise TargetProblem(f"{url}: {type(error).__name__}: {_short(str(error))}") from error
    finally:
        session.close()


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
    return f'"{one_line(text, 80)}"' if text.strip() else "and no text"
