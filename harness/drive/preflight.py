"""One real request before the load, so that a wrong address, a web page or a dead server is one clear line.

`/v1/models` is asked first for a model name and believed only when it makes sense: some servers answer 500 there.
"""

import json
import os
from dataclasses import dataclass
from typing import Any

import requests

USER_AGENT = "seatrial (fault injection and soak trials)"
_ASK = "Say one word."


class TargetProblem(Exception):
    """The target can't be tried; the text is one line for its user."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the first request showed."""

    model: str
    api: str
    """completions | chat: the first of the two that works."""


def first_answer(url: str, model: str | None, key_env: str | None, timeout_s: float = 60.0) -> Answer:
    """Ask `url` for one token. Raises TargetProblem saying what was wrong and what to do."""
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
        return Answer(name, _ask(session, url, name, timeout_s))
    finally:
        session.close()


def _model_of(session: requests.Session, url: str) -> str | None:
    """The first model that the server lists; None when its list makes no sense."""
    reply = _send(session, "GET", f"{url}/v1/models", None, 10.0)
    try:
        return str(reply.json()["data"][0]["id"]) if reply.status_code == 200 else None
    except (ValueError, LookupError, TypeError):
        return None


def _ask(session: requests.Session, url: str, model: str, timeout_s: float) -> str:
    """Which of the two APIs gives one sensible answer."""
    chat = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": _ASK}]}
    tries: list[tuple[str, str, dict[str, Any]]] = [
        ("completions", "/v1/completions", {"model": model, "max_tokens": 1, "prompt": _ASK}),
        ("chat", "/v1/chat/completions", chat),
    ]
    said = []
    for api, path, body in tries:
        reply = _send(session, "POST", url + path, body, timeout_s)
        wrong = _wrong(reply)
        if wrong is None:
            return api
        said.append(f"{path}: {wrong}")
    raise TargetProblem(f"{url} is no OpenAI-compatible server: {'; '.join(said)}")


def _send(session: requests.Session, method: str, url: str, body: object, timeout_s: float) -> requests.Response:
    try:
        return session.request(method, url, json=body, timeout=(5.0, timeout_s), allow_redirects=False)
    except requests.ConnectionError as error:
        refused = "refused" in str(error).lower()
        what = "nothing listens there" if refused else f"the connection failed ({_root(error)})"
        raise TargetProblem(f"{url}: {what}; start the server or correct target.url") from error
    except requests.Timeout as error:
        raise TargetProblem(f"{url}: no answer within {timeout_s:g} s") from error
    except requests.RequestException as error:
        raise TargetProblem(f"{url}: {type(error).__name__}: {error}") from error


def _wrong(reply: requests.Response) -> str | None:
    """What is not right about an answer to a one-token request; None when it is a completion."""
    kind = reply.headers.get("Content-Type", "no content type").partition(";")[0]
    if reply.status_code != 200:
        return f"HTTP {reply.status_code} {_short(reply.text)}"
    try:
        value = json.loads(reply.text)
    except ValueError:
        return f"HTTP 200 with {kind} that is no JSON"
    choices = value.get("choices") if isinstance(value, dict) else None
    return None if isinstance(choices, list) and choices else "HTTP 200 with JSON that has no choices"


def _short(text: str) -> str:
    flat = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return f'"{flat[:80]}"' if flat else "and no text"


def _root(error: BaseException) -> str:
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return type(error).__name__
