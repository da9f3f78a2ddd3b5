"""Turns the events of a session into an HTTP response, in one piece or as server-sent events.

The head of a stream is sent with the engine's first output, so a refusal or a missed deadline before it is an HTTP
error status. After the head an error is sent in band: `data: {"error": ...}`, then `data: [DONE]`.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from faults import Effect
from runtime.core.ports import Clock
from runtime.server import events
from runtime.server.connection import HttpSession
from runtime.server.listener import abort_of
from runtime.server.rendering import Json, Rendering
from runtime.server.responses import error_response

_DONE = b"data: [DONE]\n\n"
_STREAM_HEAD = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


class ResponseWriter:
    """An ASGI application that answers one admitted request."""

    def __init__(self, session: HttpSession, rendering: Rendering, clock: Clock) -> None:
        self._session = session
        self._rendering = rendering
        self._clock = clock
        self._head = {"x-request-id": session.caller.request}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Writes the session's events. The delivery is settled exactly once, also when an error is raised here."""
        session = self._session
        session.peer.abort = abort_of(scope)
        watch = asyncio.create_task(self._watch(receive))
        try:
            while (event := await self._next()) is not None:
                await self._write(event, send)
                if isinstance(event, events.LAST):
                    break
            if session.gone is not None:
                # uvicorn calls it an error to return from an incomplete answer before it knows that the client left.
                await asyncio.wait({watch}, timeout=1.0)
        except BaseException:
            session.fail()
            session.peer.abort()
            raise
        finally:
            watch.cancel()

    async def _next(self) -> events.Event | None:
        """Waits for the next event. None when the client has left."""
        session = self._session
        while (event := session.next()) is None and session.gone is None:
            await session.peer.woken()
        return event

    async def _write(self, event: events.Event, send: Send) -> None:
        shapes = self._rendering
        match event:
            case events.Tokens(text, sampled):
                await self._chunk(send, shapes.piece(text, sampled))
            case events.Head():
                await self._start(send, 200, _STREAM_HEAD)
            case events.Opening():
                await self._chunk(send, shapes.opening())
            case events.Finished(reason):
                await self._chunk(send, shapes.closing(reason))
            case events.Counts(ended):
                await self._chunk(send, shapes.counts(ended))
            case events.Done():
                await self._last(send, _DONE)
            case events.WholeAnswer(text, sampled, reason, ended):
                body = json.dumps(shapes.whole(text, sampled, reason, ended)).encode()
                await self._whole(send, 200, body, {})
            case events.Refusal(problem):
                response = error_response(problem)
                await self._whole(send, problem.http, bytes(response.body), dict(response.headers))
            case events.InBandError(problem):
                await self._last(send, b"data: " + json.dumps(problem.body).encode() + b"\n\n" + _DONE)
            case events.Cut():
                self._session.peer.abort()
            case events.Delay(effect):
                await _wait(effect, self._clock)
                self._session.resume()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._session.leave("client_gone")

    # -- bytes --------------------------------------------------------------------------------------------------------

    async def _start(self, send: Send, http: int, headers: Mapping[str, str]) -> None:
        await self._send(
            send, {"type": "http.response.start", "status": http, "headers": Headers({**headers, **self._head}).raw}
        )

    async def _chunk(self, send: Send, chunk: Json) -> None:
        data = b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"
        await self._send(send, {"type": "http.response.body", "body": data, "more_body": True})

    async def _last(self, send: Send, data: bytes) -> None:
        # The watch gets a turn to see a client that has just left: its answer does not count as delivered.
        await asyncio.sleep(0)
        await self._send(send, {"type": "http.response.body", "body": data, "more_body": False})
        if self._session.gone is None:
            self._session.sent()

    async def _whole(self, send: Send, http: int, body: bytes, headers: Mapping[str, str]) -> None:
        head = {"content-type": "application/json", **headers, "content-length": str(len(body))}
        await self._start(send, http, head)
        await self._last(send, body)

    async def _send(self, send: Send, message: Mapping[str, Any]) -> None:
        connection = self._session.peer
        if self._session.gone is not None:
            return
        connection.sending_ns = self._clock.now_ns()
        await send(dict(message))
        connection.sending_ns = None


async def _wait(effect: Effect, clock: Clock) -> None:
    """Waits until the effect is over or released, without blocking the event loop."""
    over = asyncio.Event()
    effect.then(over.set, _LoopTimer(asyncio.get_running_loop(), clock))
    await over.wait()


@dataclass(frozen=True, slots=True)
class _LoopTimer:
    """Implements `faults.effects.Timer` on the event loop. Other threads may heal faults, so it is thread safe."""

    loop: asyncio.AbstractEventLoop
    clock: Clock

    def now_ns(self) -> int:
        return self.clock.now_ns()

    def at(self, t_ns: int, call: Callable[[], object]) -> None:
        delay_s = max(0.0, (t_ns - self.clock.now_ns()) / 1e9)
        self.loop.call_soon_threadsafe(self.loop.call_later, delay_s, call)
