"""The public routes. A request's way: headers -> Caller, body -> schema -> Ask -> door -> Reply."""

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from runtime.core.errors import InvalidRequest, RuntimeFailure
from runtime.server import chat, completions
from runtime.server.door import Ask, Door, Turned
from runtime.server.errors import Problem, of_failure, problem
from runtime.server.health import sick
from runtime.server.meter import CONTENT_TYPE, Meter
from runtime.server.reply import Rendering, Reply
from runtime.server.schema import ChatRequest, CompletionRequest, Generation, read
from runtime.server.stream import Caller

M = TypeVar("M", bound=Generation)
_ID_CHARS_MAX = 128
_CODES = {404: "not_found", 405: "method_not_allowed"}


def make_app(door: Door, meter: Meter) -> Starlette:
    """The application in front of one engine."""
    desk = Desk(door)

    async def models(_: Request) -> Response:
        model = {"id": door.served.model, "object": "model", "created": desk.started_s, "owned_by": "seatrial"}
        model["max_model_len"] = door.served.context_tokens
        return JSONResponse({"object": "list", "data": [model]})

    async def health(_: Request) -> Response:
        reason = sick(door)
        return JSONResponse({"status": "ok"} if reason is None else {"status": reason}, 200 if reason is None else 503)

    async def metrics(_: Request) -> Response:
        return Response(meter.text(), media_type=CONTENT_TYPE)

    routes = [
        Route("/v1/completions", desk.completions, methods=["POST"]),
        Route("/v1/chat/completions", desk.chat, methods=["POST"]),
        Route("/v1/models", models),
        Route("/health", health),
        Route("/metrics", metrics),
    ]
    return Starlette(routes=routes, exception_handlers=ERRORS)


class Desk:
    """Reads requests and hands them to the door."""

    def __init__(self, door: Door) -> None:
        self.started_s = int(time.time())
        self._door = door
        self._groups = door.config.groups()
        self._seen = 0

    async def completions(self, request: Request) -> ASGIApp:
        """POST /v1/completions."""

        def open_it(raw: Any, answer_id: str) -> tuple[Ask, Rendering]:
            tokenizer = self._door.served.tokenizer
            asked = completions.ask(self._checked(read(CompletionRequest, raw)), tokenizer)
            return asked, completions.CompletionRendering(answer_id, *self._names(), asked, tokenizer)

        return await self._answer(request, open_it)

    async def chat(self, request: Request) -> ASGIApp:
        """POST /v1/chat/completions."""

        def open_it(raw: Any, answer_id: str) -> tuple[Ask, Rendering]:
            tokenizer = self._door.served.tokenizer
            asked = chat.ask(self._checked(read(ChatRequest, raw)), tokenizer)
            return asked, chat.ChatRendering(answer_id, *self._names(), asked, tokenizer)

        return await self._answer(request, open_it)

    async def _answer(self, request: Request, open_it: Callable[[Any, str], tuple[Ask, Rendering]]) -> ASGIApp:
        caller = self._caller(request)
        try:
            self._authorise(request)
            raw = json.loads(await read_body(request, self._door.config.body_bytes_max))
            asked, rendering = open_it(raw, caller.server_id)
            return Reply(self._door, self._door.admit(asked, caller), asked, rendering)
        except Turned as turned:
            found = turned.problem
        except RuntimeFailure as failure:
            found = of_failure(failure)
        except (ValueError, RecursionError) as error:
            found = problem(400, f"the body is not JSON: {error}", "invalid_json")
        except ClientDisconnect:
            found = problem(499, "the client left before its request was read", "client_gone")
        self._door.turned(caller, found)
        return found.response({"x-request-id": caller.request})

    def _caller(self, request: Request) -> Caller:
        self._seen += 1
        server_id = f"{self._door.proc}-{self._seen}"
        headers = request.headers
        return Caller(
            request=headers.get("x-request-id", "")[:_ID_CHARS_MAX] or server_id,
            server_id=server_id,
            group=self._groups.get(_key(request), ""),
            load=headers.get("x-seatrial-load"),
            arrive_ns=self._door.served.env.clock.now_ns(),
            timeout_s=self._timeout_s(headers.get("x-request-timeout")),
        )

    def _authorise(self, request: Request) -> None:
        if self._groups and _key(request) not in self._groups:
            raise Turned(problem(401, "no group has this API key; send Authorization: Bearer <key>", "invalid_api_key"))

    def _timeout_s(self, wanted: str | None) -> float:
        """Less than the configured one if the client asks for it; what is no number is no wish."""
        limit_s = self._door.config.request_timeout_s
        try:
            wanted_s = float(wanted) if wanted is not None else limit_s
        except ValueError:
            return limit_s
        return min(wanted_s, limit_s) if wanted_s > 0 else limit_s

    def _checked(self, asked: M) -> M:
        model = self._door.served.model
        if asked.model is not None and asked.model != model:
            failure = InvalidRequest(f'no model "{asked.model}" here; there is "{model}"', "model", "model_not_found")
            failure.http = 404
            raise failure
        return asked

    def _names(self) -> tuple[int, str]:
        return int(time.time()), self._door.served.model


async def read_body(request: Request, bytes_max: int) -> bytes:
    """The whole body. Errors: Turned 413 when it is longer than `bytes_max`."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > bytes_max:
            raise Turned(problem(413, f"the body is longer than {bytes_max} bytes; send less", "body_too_large"))
    return bytes(body)


def _key(request: Request) -> str:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "http_error")
    return problem(error.status_code, str(error.detail), code).response(dict(error.headers or {}))


async def _internal_error(_: Request, error: Exception) -> Response:
    text = f"the server failed: {type(error).__name__}"
    return Problem(500, text, "internal_error").response()


ERRORS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    HTTPException: _http_error,
    Exception: _internal_error,
}
