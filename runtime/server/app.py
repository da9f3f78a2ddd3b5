"""The public routes. They turn headers into a Caller and the body into GenerationParams, and call `Admission.admit`."""

import time
from collections.abc import Callable
from typing import TypeVar

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from faults.spec import DEFAULT_GROUP, LOAD_HEADER
from runtime.core.errors import InvalidRequest, RuntimeFailure
from runtime.server import chat, completions
from runtime.server.admission import Admission, Rejected
from runtime.server.config import ServerConfig
from runtime.server.connection import Connection
from runtime.server.errors import problem, problem_of_failure
from runtime.server.journal import Journal
from runtime.server.meter import CONTENT_TYPE, Meter
from runtime.server.ports import RuntimeHandle, Tokenizer
from runtime.server.rendering import Rendering
from runtime.server.request import Caller, GenerationParams
from runtime.server.response_writer import ResponseWriter
from runtime.server.responses import ERRORS, error_response, read_body
from runtime.server.schema import ChatRequest, CompletionRequest, Generation, read

M = TypeVar("M", bound=Generation)
_ID_CHARS_MAX = 128


def make_app(
    runtime: RuntimeHandle, admission: Admission[Connection], config: ServerConfig, meter: Meter, journal: Journal
) -> Starlette:
    """The application in front of one runtime."""
    endpoints = Endpoints(runtime, admission, config, journal)

    async def models(_: Request) -> Response:
        model = {"id": runtime.model, "object": "model", "created": endpoints.started_s, "owned_by": "seatrial"}
        model["max_model_len"] = runtime.context_tokens
        return JSONResponse({"object": "list", "data": [model]})

    async def health(_: Request) -> Response:
        reason = admission.unhealthy_reason(runtime.status.progress_ns, config.health_stall_s)
        return JSONResponse({"status": "ok"} if reason is None else {"status": reason}, 200 if reason is None else 503)

    async def metrics(_: Request) -> Response:
        return Response(meter.text(), media_type=CONTENT_TYPE)

    routes = [
        Route("/v1/completions", endpoints.completions, methods=["POST"]),
        Route("/v1/chat/completions", endpoints.chat, methods=["POST"]),
        Route("/v1/models", models),
        Route("/health", health),
        Route("/metrics", metrics),
    ]
    return Starlette(routes=routes, exception_handlers=ERRORS)


class Endpoints:
    """The endpoints that generate text: they parse requests and pass them to admission."""

    def __init__(
        self, runtime: RuntimeHandle, admission: Admission[Connection], config: ServerConfig, journal: Journal
    ) -> None:
        self.started_s = int(time.time())
        self._runtime = runtime
        self._admission = admission
        self._config = config
        self._journal = journal
        self._groups = config.groups()
        self._seen = 0

    async def completions(self, request: Request) -> ASGIApp:
        """POST /v1/completions."""
        return await self._answer(request, CompletionRequest, completions.params, completions.CompletionRendering)

    async def chat(self, request: Request) -> ASGIApp:
        """POST /v1/chat/completions."""
        return await self._answer(request, ChatRequest, chat.params, chat.ChatRendering)

    async def _answer(
        self,
        request: Request,
        schema: type[M],
        params_of: Callable[[M, Tokenizer], GenerationParams],
        rendering: type[Rendering],
    ) -> ASGIApp:
        caller, runtime = self._caller(request), self._runtime
        try:
            self._authorise(request)
            body = await read_body(request, self._config.body_bytes_max)
            params = params_of(self._checked(read(schema, body)), runtime.tokenizer)
            shapes = rendering(caller.server_id, int(time.time()), runtime.model, params, runtime.tokenizer)
            self._journal.add_name(caller.server_id, caller.request)
            session = self._admission.admit(params, caller, Connection())
            return ResponseWriter(session, shapes, runtime.env.clock)
        except Rejected as rejected:
            found = rejected.problem
        except RuntimeFailure as failure:
            found = problem_of_failure(failure)
        except ClientDisconnect:
            found = problem(499, "the client left before its request was read", "client_gone")
        self._admission.reject(caller, found)
        return error_response(found, {"x-request-id": caller.request})

    def _caller(self, request: Request) -> Caller:
        self._seen += 1
        server_id = f"{self._admission.terms.proc}-{self._seen}"
        headers = request.headers
        return Caller(
            request=headers.get("x-request-id", "")[:_ID_CHARS_MAX] or server_id,
            server_id=server_id,
            group=self._groups.get(_key(request), DEFAULT_GROUP),
            load=headers.get(LOAD_HEADER),
            arrive_ns=self._runtime.env.clock.now_ns(),
            timeout_s=self._timeout_s(headers.get("x-request-timeout")),
        )

    def _authorise(self, request: Request) -> None:
        if self._groups and _key(request) not in self._groups:
            text = "no group has this API key; send Authorization: Bearer <key>"
            raise Rejected(problem(401, text, "invalid_api_key"))

    def _timeout_s(self, wanted: str | None) -> float:
        """The timeout in seconds: the client's, at most the configured limit. A value that is no number is ignored."""
        limit_s = self._config.request_timeout_s
        try:
            wanted_s = float(wanted) if wanted is not None else limit_s
        except ValueError:
            return limit_s
        return min(wanted_s, limit_s) if wanted_s > 0 else limit_s

    def _checked(self, request: M) -> M:
        model = self._runtime.model
        if request.model is not None and request.model != model:
            failure = InvalidRequest(f'no model "{request.model}" here; there is "{model}"', "model", "model_not_found")
            failure.http = 404
            raise failure
        return request


def _key(request: Request) -> str:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
