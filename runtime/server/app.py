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
from runtime.server.responses import error_response, handlers, read_body
from runtime.server.schema import ChatRequest, CompletionRequest, Generation, read

M = TypeVar("M", bound=Generation)
_ID_CHARS_MAX = 128


class Endpoints:
    """The public endpoints in front of one runtime."""

    def __init__(
        self,
        runtime: RuntimeHandle,
        admission: Admission[Connection],
        config: ServerConfig,
        meter: Meter,
        journal: Journal,
    ) -> None:
        self._started_s = int(time.time())
        self._runtime = runtime
        self._admission = admission
        self._config = config
        self._meter = meter
        self._journal = journal
        self._groups = config.groups()
        self._seen = 0

    def app(self) -> Starlette:
        """The application."""
        routes = [
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/models", self.models),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
        ]
        return Starlette(routes=routes, exception_handlers=handlers(self._runtime.env.tell_exception))

    async def models(self, _: Request) -> Response:
        """Lists the one model."""
        model = {"id": self._runtime.model, "object": "model", "created": self._started_s, "owned_by": "seatrial"}
        model["max_model_len"] = self._runtime.context_tokens
        return JSONResponse({"object": "list", "data": [model]})

    async def health(self, _: Request) -> Response:
        """Says whether requests can be served now."""
        stall_s = self._config.health_stall_s
        reason = self._admission.unhealthy_reason(self._runtime.status.progress_ns, stall_s)
        if reason is not None and (found := self._runtime.standstill(round(stall_s * 1e9))) is not None:
            reason += f"; {found}"
        return JSONResponse({"status": reason or "ok"}, 200 if reason is None else 503)

    async def metrics(self, _: Request) -> Response:
        """Gives all metrics in Prometheus' text format."""
        return Response(self._meter.text(), media_type=CONTENT_TYPE)

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
