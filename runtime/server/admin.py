"""/admin/*: arms and heals faults, audits and drains, for the harness. It is off by default, and has a loopback port of
its own and a token.

Faults are armed in the injector directly, past the engine's mailbox, so that faults of a hung engine can be healed.
Audit and drain run on the engine's thread: they go through the mailbox and wait with a limit.
"""

import asyncio
import hmac
import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from typing import TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from faults import FaultSpec, SpecError, UnknownName
from runtime.core.messages import Call
from runtime.memory.spans.usage import figures_of, print_stats
from runtime.server.admission import Admission, Rejected
from runtime.server.connection import Connection
from runtime.server.errors import Problem, problem
from runtime.server.journal import Journal
from runtime.server.ports import RuntimeHandle
from runtime.server.responses import error_response, handlers, read_body

T = TypeVar("T")
_SCOPES = ("live", "quiesce", "drain")
_ENGINE_WAIT_S = 10.0
_BODY_BYTES_MAX = 256 * 1024


class TokenGuard:
    """Refuses requests without the token (401) or with a Host that is not loopback (403), so that a web page can't arm
    faults by DNS rebinding."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Checks a request before its route is looked up, so that a refused client can't learn which routes exist."""
        found = self._problem(dict(scope["headers"]))
        await (self._app if found is None else error_response(found))(scope, receive, send)

    def _problem(self, headers: Mapping[bytes, bytes]) -> Problem | None:
        host = headers.get(b"host", b"").decode("latin-1").rsplit(":", 1)[0]
        if host not in ("127.0.0.1", "localhost", "[::1]"):
            return problem(403, "the admin port answers to loopback names only", "wrong_host")
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._token):
            return problem(401, "send Authorization: Bearer <admin token>", "wrong_token")
        return None


class Admin:
    """The endpoints of /admin. `empty` is set while no request is open. `flush` writes counters and events to the
    journal, so that they stand before the rows of an audit."""

    def __init__(
        self,
        runtime: RuntimeHandle,
        admission: Admission[Connection],
        empty: asyncio.Event,
        journal: Journal,
        flush: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._admission = admission
        self._empty = empty
        self._journal = journal
        self._flush = flush

    def app(self, token: str) -> ASGIApp:
        """The application, for clients that know `token`."""
        routes = [
            Route("/admin/faults", self.arm, methods=["POST"]),
            Route("/admin/faults", self.faults, methods=["GET"]),
            Route("/admin/faults", self.heal_all, methods=["DELETE"]),
            Route("/admin/faults/{fault}", self.heal, methods=["DELETE"]),
            Route("/admin/heartbeat", self.heartbeat, methods=["POST"]),
            Route("/admin/audit", self.audit, methods=["POST"]),
            Route("/admin/drain", self.drain, methods=["POST"]),
            Route("/admin/info", self.info, methods=["GET"]),
            Route("/admin/memory", self.memory, methods=["GET"]),
        ]
        errors = handlers(self._runtime.env.tell_exception)
        return TokenGuard(Starlette(routes=routes, exception_handlers=errors), token)

    async def arm(self, request: Request) -> Response:
        """Arms one FaultSpec or a list of them: all or none."""
        try:
            raw = json.loads(await read_body(request, _BODY_BYTES_MAX))
            specs = [FaultSpec.from_json(each) for each in (raw if isinstance(raw, list) else [raw])]
            self._runtime.env.faults.arm(specs)
        except SpecError as error:
            raise Rejected(problem(400, str(error), "bad_fault")) from error
        except ValueError as error:
            raise Rejected(problem(400, f"the body is not JSON: {error}", "invalid_json")) from error
        return JSONResponse({"armed": [{"id": spec.id, "n": spec.n} for spec in specs]})

    async def faults(self, _: Request) -> Response:
        """Lists every fault that was armed, with its present state."""
        states = self._runtime.env.faults.states()
        return JSONResponse({"faults": [{**state.to_json(), "error": state.error} for state in states]})

    async def heal(self, request: Request) -> Response:
        """Heals one fault: all its occurrences or the `n`-th."""
        n = request.query_params.get("n")
        if n is not None and not n.isdecimal():
            text = f'n "{n}" is not the number of an occurrence; give 0, 1, ...'
            raise Rejected(problem(400, text, "invalid_value", "n"))
        try:
            ended = self._runtime.env.faults.heal(request.path_params["fault"], "harness", int(n) if n else None)
        except UnknownName as error:
            raise Rejected(problem(404, str(error), "unknown_fault")) from error
        return JSONResponse({"healed": ended})

    async def heal_all(self, _: Request) -> Response:
        """Heals every fault."""
        return JSONResponse({"healed": self._runtime.env.faults.heal_all("harness")})

    async def heartbeat(self, _: Request) -> Response:
        """Tells the injector that the harness is alive; without heartbeats all faults heal."""
        self._runtime.env.faults.beat()
        return JSONResponse({"t_ns": self._runtime.env.clock.now_ns()})

    async def audit(self, request: Request) -> Response:
        """Audits the resources that each request holds. `scope` is live, quiesce or drain."""
        scope = request.query_params.get("scope", "live")
        if scope not in _SCOPES:
            text = f'scope "{scope}" is unknown; give one of {", ".join(_SCOPES)}'
            raise Rejected(problem(400, text, "invalid_value", "scope"))
        rows = [asdict(row) for row in await self._on_engine(lambda: self._runtime.audit(scope))]
        for row in rows:
            row["owner"] = self._journal.name(row["owner"])
        t_ns = rows[0]["t_ns"] if rows else self._runtime.env.clock.now_ns()
        rows.append(self._own_row(t_ns, scope))
        self._flush()
        for row in rows:
            self._journal.tell("audit", row)
        return JSONResponse({"t_ns": t_ns, "rows": rows})

    async def drain(self, request: Request) -> Response:
        """Refuses new requests from now on, and waits up to `timeout_s` seconds (0) until no request is open."""
        try:
            timeout_s = float(request.query_params.get("timeout_s", "0"))
        except ValueError:
            text = "timeout_s must be a number of seconds"
            raise Rejected(problem(400, text, "invalid_value", "timeout_s")) from None
        self._admission.closed = problem(503, "the server is draining", "draining")
        self._runtime.mailbox.post(Call(self._runtime.drain))
        with suppress(TimeoutError):  # the reply says how many requests are still open
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        self._flush()
        open_now = len(self._admission.open)
        return JSONResponse({"t_ns": self._runtime.env.clock.now_ns(), "drained": open_now == 0, "open": open_now})

    async def info(self, _: Request) -> Response:
        """Gives process id, model and capabilities of this server."""
        return JSONResponse({"pid": os.getpid(), "model": self._runtime.model, **self._runtime.info})

    async def memory(self, _: Request) -> Response:
        """Gives the present figures of each pool, the prefix cache, each tenant and each request, bytes outside of the
        pools, and a table of the pools as text."""
        memory = await self._on_engine(self._runtime.measure_memory)
        requests = [figures_of(one) | {"request": self._journal.name(one.request)} for one in memory.requests]
        return JSONResponse(
            {
                "pools": [figures_of(usage) for usage in memory.pools],
                "prefix": None if memory.prefix is None else figures_of(memory.prefix),
                "tenants": [figures_of(one) for one in memory.tenants],
                "requests": requests,
                "unowned_bytes": dict(memory.unowned_bytes),
                "free_bytes": memory.free_bytes,
                "table": print_stats(memory.pools).splitlines(),
            }
        )

    def _own_row(self, t_ns: int, scope: str) -> dict[str, object]:
        return {
            "t_ns": t_ns,
            "scope": scope,
            "name": "server.exchanges",
            "kind": "live",
            "owner": "",
            "value": len(self._admission.open),
            "expected": None if scope == "live" else 0,
            "unit": "requests",
            "history": " ".join(session.caller.request for session in list(self._admission.open.values())[:8]),
        }

    async def _on_engine(self, do: Callable[[], T]) -> T:
        """Runs `do` on the engine's thread between two steps. Raises `do`'s error, or Rejected when it takes longer
        than _ENGINE_WAIT_S."""
        answer: Future[T] = Future()

        def call() -> None:
            if not answer.set_running_or_notify_cancel():
                return  # the request timed out or its client left
            # An error of `do` belongs to the admin request and must not end the engine's thread.
            try:
                answer.set_result(do())
            except Exception as error:
                answer.set_exception(error)

        self._runtime.mailbox.post(Call(call))
        try:
            async with asyncio.timeout(_ENGINE_WAIT_S):
                return await asyncio.wrap_future(answer)
        except TimeoutError:
            text = (
                f"the engine did not run the call in {_ENGINE_WAIT_S:g} s; heal the fault that hangs it and try again"
            )
            raise Rejected(problem(504, text, "engine_busy")) from None
