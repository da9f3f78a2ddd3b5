"""Carries an exchange's answer to its client, whole or as server-sent events, and settles how that went.

The head of a stream waits for the engine's first word: a refusal or a deadline before the first token is then a true
HTTP status. After the head an error can only come in band: `data: {"error": ...}`, then `data: [DONE]`.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from starlette.types import Receive, Scope, Send

from faults import Effect, Kind
from runtime.core.edge import End, Ended, Finish, Output
from runtime.core.work import Sampled
from runtime.server.cut import abort_of
from runtime.server.door import Ask, Door
from runtime.server.errors import Problem, of_end, of_failure
from runtime.server.points import SERVER_STREAM, StreamError
from runtime.server.stream import Exchange
from runtime.server.text import Transcript

Json = Mapping[str, Any]
_DONE = b"data: [DONE]\n\n"


class Rendering(Protocol):
    """One endpoint's shapes."""

    def opening(self) -> list[Json]:
        """Chunks before the first token."""
        ...

    def piece(self, text: str, sampled: Sequence[Sampled]) -> Json:
        """A chunk for some tokens; `text` is what they let the client see, "" when that is nothing yet."""
        ...

    def closing(self, finish: str) -> Json:
        """The chunk that says why it is over."""
        ...

    def counts(self, usage: Json) -> Json:
        """The chunk of `include_usage`."""
        ...

    def whole(self, text: str, sampled: Sequence[Sampled], finish: str, usage: Json) -> Json:
        """The answer in one piece."""
        ...


class Gone(Exception):
    """Nobody listens any more."""


class Reply:
    """An ASGI application that answers one admitted request."""

    def __init__(self, door: Door, exchange: Exchange, ask: Ask, rendering: Rendering) -> None:
        self._door = door
        self._exchange = exchange
        self._ask = ask
        self._rendering = rendering
        self._env = door.served.env
        self._transcript = Transcript(door.served.tokenizer.decode, ask.stops, ask.stop_tokens)
        self._phase = "prefill"
        self._head = {"x-request-id": exchange.caller.request}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Whatever happens here, the exchange is answered exactly once."""
        exchange = self._exchange
        exchange.abort = abort_of(scope)
        watch = asyncio.create_task(self._watch(receive))
        try:
            await (self._stream(send) if self._ask.stream else self._plain(send))
        except Gone:
            self._settle("cancelled", exchange.gone)
            # uvicorn calls it an error to return from an answer that is not complete before it knows of the cut.
            await asyncio.wait({watch}, timeout=1.0)
        except BaseException:
            exchange.leave("internal_error")
            exchange.abort()
            if exchange.answered is None:
                self._settle("http_error", "internal_error")
            raise
        finally:
            watch.cancel()

    # -- the two ways -------------------------------------------------------------------------------------------------

    async def _plain(self, send: Send) -> None:
        text, kept = "", list[Sampled]()
        while True:
            output = await self._news()
            fresh, sampled = self._take(output)
            text += fresh
            kept += sampled
            if output.ended is not None:
                break
        end = output.ended.end
        if end.outcome != "ok":
            await self._refuse(send, of_end(end))
            return
        text += self._transcript.flush()
        finish = self._finish(end)
        body = self._rendering.whole(text, kept, finish, usage(output.ended))
        await self._whole(send, 200, json.dumps(body).encode(), {})
        self._settle("ok", None, finish)

    async def _stream(self, send: Send) -> None:
        started = False
        while True:
            output = await self._news()
            ended = output.ended
            if ended is not None and ended.end.outcome != "ok":
                await (self._in_band(send, of_end(ended.end)) if started else self._refuse(send, of_end(ended.end)))
                return
            try:
                if not started:
                    started = True
                    await self._start(send)
                text, sampled = self._take(output)
                if ended is not None:
                    text += self._transcript.flush()
                if sampled or text:
                    await self._event(send, self._rendering.piece(text, sampled))
                    self._phase = "decode"
                if ended is not None:
                    await self._close(send, ended)
                    return
            except StreamError as failure:
                await self._in_band(send, of_failure(failure))
                self._exchange.leave("stream_error")
                return

    async def _start(self, send: Send) -> None:
        head = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", **self._head}
        await self._send(send, {"type": "http.response.start", "status": 200, "headers": _raw(head)})
        for chunk in self._rendering.opening():
            await self._event(send, chunk)

    async def _close(self, send: Send, ended: Ended) -> None:
        finish = self._finish(ended.end)
        await self._event(send, self._rendering.closing(finish))
        if self._ask.include_usage:
            await self._event(send, self._rendering.counts(usage(ended)))
        await self._last(send, _DONE)
        self._settle("ok", None, finish)

    # -- errors -------------------------------------------------------------------------------------------------------

    async def _refuse(self, send: Send, problem: Problem) -> None:
        """No byte was sent: a true HTTP error."""
        response = problem.response()
        headers = {key: value for key, value in response.headers.items() if key != "content-length"}
        await self._whole(send, problem.http, bytes(response.body), headers)
        self._settle(problem.outcome, problem.code)

    async def _in_band(self, send: Send, problem: Problem) -> None:
        """The head is out: say it in the stream, and end the stream in good order."""
        self._env.marks.hit("stream.inband_error")
        await self._last(send, b"data: " + json.dumps(problem.body).encode() + b"\n\n" + _DONE)
        self._settle("inband_error" if problem.outcome == "http_error" else problem.outcome, problem.code)

    def _settle(self, outcome: str, code: str | None, finish: str | None = None) -> None:
        self._door.answered(self._exchange, outcome, code, finish)

    # -- the engine's side --------------------------------------------------------------------------------------------

    async def _news(self) -> Output:
        """The engine's next word. Long after the deadline the server speaks for it: every wait has an end."""
        exchange = self._exchange
        left_s = (exchange.deadline_ns - self._env.clock.now_ns()) / 1e9 + self._door.config.answer_grace_s
        try:
            output = await exchange.next(left_s)
        except TimeoutError:
            text = "the request's deadline has passed, and the engine does not answer"
            self._door.give_up(exchange, End("timeout", 504, "deadline_exceeded", text))
            output = await exchange.next(1.0)
        if output is None:
            raise Gone
        return output

    def _take(self, output: Output) -> tuple[str, tuple[Sampled, ...]]:
        """The text that these tokens let the client see. After a stop string there is none."""
        if self._transcript.stopped:
            return "", ()
        text = self._transcript.push([each.token for each in output.tokens])
        if self._transcript.stopped and output.ended is None:
            self._door.served.mailbox.post(Finish(self._exchange.server_id))
        return text, output.tokens

    def _finish(self, end: End) -> str:
        return "stop" if self._transcript.stopped else end.finish or "stop"

    # -- the client's side --------------------------------------------------------------------------------------------

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._exchange.leave("client_gone")

    async def _event(self, send: Send, chunk: Json) -> None:
        if self._env.faults.armed:
            await self._cross()
        data = b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"
        await self._send(send, {"type": "http.response.body", "body": data, "more_body": True})

    async def _last(self, send: Send, data: bytes) -> None:
        # Let the watch see a client that has just left: its answer must not be called delivered.
        await asyncio.sleep(0)
        await self._send(send, {"type": "http.response.body", "body": data, "more_body": False})

    async def _whole(self, send: Send, http: int, body: bytes, headers: Mapping[str, str]) -> None:
        head = {"content-type": "application/json", **headers, **self._head, "content-length": str(len(body))}
        await self._send(send, {"type": "http.response.start", "status": http, "headers": _raw(head)})
        await self._last(send, body)

    async def _send(self, send: Send, message: Mapping[str, Any]) -> None:
        exchange = self._exchange
        if exchange.gone is not None:
            raise Gone
        exchange.sending_ns = self._env.clock.now_ns()
        await send(dict(message))
        exchange.sending_ns = None
        if exchange.gone is not None:
            raise Gone

    async def _cross(self) -> None:
        """The fault point of the stream: raises StreamError, cuts, or is late."""
        caller = self._exchange.caller
        effect = self._env.faults.fire(
            SERVER_STREAM,
            key=caller.request,
            request=caller.request,
            group=caller.group,
            phase=self._phase,
            load=caller.load,
        )
        if effect is None:
            return
        if effect.kind is Kind.CUT:
            self._env.marks.hit("stream.cut")
            self._exchange.leave("stream_cut")
            self._exchange.abort()
            raise Gone
        assert effect.kind is Kind.DELAY, f"{SERVER_STREAM.name} does not know {effect.kind}"
        await _wait(effect, self._env.clock.now_ns())


def usage(ended: Ended) -> Json:
    """The engine's own counts, as its ledger row has them."""
    return {
        "prompt_tokens": ended.tokens_in,
        "completion_tokens": ended.tokens_out,
        "total_tokens": ended.tokens_in + ended.tokens_out,
        "prompt_tokens_details": {"cached_tokens": ended.tokens_cached},
    }


async def _wait(effect: Effect, now_ns: int) -> None:
    """Wait on the loop until the effect is over or released, holding up nobody else."""
    loop, released = asyncio.get_running_loop(), asyncio.Event()
    effect.on_release(lambda: loop.call_soon_threadsafe(released.set))
    try:
        async with asyncio.timeout(max(0.0, (effect.due_ns - now_ns) / 1e9)):
            await released.wait()
    except TimeoutError:
        # The bus learns here that it is over, rather than at its next tick.
        effect.wait(0)


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
