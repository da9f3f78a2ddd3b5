"""Serving in its two worlds, with one scripted engine: over HTTP (the ASGI application in this process, on a loop whose
time is a number) and in virtual time. Both tell what one client heard in the same words.

    head | tokens 1 2 | finished stop | counts 2/3 | done | whole 1 2 stop 2/3 | refused 429 full | in band X | cut
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from faults import FaultSpec, parse_do
from harness.load.itl import GapHistogram
from harness.load.malformed import malformed_body
from harness.load.outcome import ClientEnd, Outcome, decide
from harness.virtual.client import Client
from harness.virtual.client_requests import ClientRequest
from harness.virtual.rows import Rows, Values
from harness.virtual.server import VirtualServer
from runtime.core.messages import Submit
from runtime.device.virtual_time import VirtualTime
from runtime.server import events
from runtime.server.app import Endpoints
from runtime.server.config import ServerConfig
from runtime.server.journal import Journal
from runtime.server.meter import Meter
from runtime.server.process import ServerProcess
from runtime.server.request import ServedRow
from tests.runtime.server.fake import FakeServed

TOKENS = (10, 20, 30, 40)
CONFIG = ServerConfig(request_timeout_s=60.0, answer_grace_s=5.0)


def script(submit: Submit) -> list[int]:
    """What the engine says, one token a turn."""
    return list(TOKENS)


class World(Protocol):
    """One client and one server. Everything happens when a method is called; nothing takes real time."""

    engine: FakeServed
    time: VirtualTime
    heard: list[str]

    def ask(self, *, stream: bool = True, max_tokens: int = 9, malformed: int | None = None) -> None:
        """The request "r" of load "l" arrives; `malformed` is the plan row of one that no server may serve."""

    def leave(self) -> None:
        """The client goes."""

    def settle(self) -> None:
        """All that can happen at this moment happens."""

    def rows(self) -> list[ServedRow]:
        """The journal, without the names of server and process."""

    def marks(self) -> dict[str, int]:
        """Rare paths that were counted."""

    def outcome(self) -> Outcome | None:
        """How it ended for the client."""

    def close(self) -> None:
        """Leave nothing behind."""


def arm(world: World, do: str, **more: Any) -> None:
    world.engine.env.faults.arm([FaultSpec.from_json({"id": "f", "n": 0, "do": str(parse_do(do)), **more})])


def turn(world: World) -> None:
    """One step of the engine."""
    world.engine.turn()
    world.settle()


def passes(world: World, seconds: int) -> None:
    """Time goes on, second by second, with the timers that are due."""
    for _ in range(seconds):
        until_ns = world.time.now_ns() + 1_000_000_000
        while world.time.next_ns is not None and world.time.next_ns <= until_ns:
            world.time.step()
        world.time.jump(until_ns)
        world.settle()


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that reads the world's clock: a timer is over when the world says so."""

    def __init__(self, time: VirtualTime) -> None:
        super().__init__()
        self._world_time = time

    def time(self) -> float:
        return self._world_time.now_ns() / 1e9


class HttpWorld:
    def __init__(self, folder: Path, submits_max: int = 64) -> None:
        self.time, self.heard = VirtualTime(), list[str]()
        self.engine = FakeServed(script, by_hand=True, submits_max=submits_max, clock=self.time)
        self._path = folder / "journal.jsonl"
        self._path.unlink(missing_ok=True)
        self._journal = Journal(str(self._path))
        self._loop = _Loop(self.time)
        self._process = ServerProcess(self.engine, CONFIG, self._journal)
        meter = Meter(self.engine, self._process.admission)
        self._app = Endpoints(self.engine, self._process.admission, CONFIG, meter, self._journal).app()
        self._process.loop = self._loop
        self.engine.start(self._process)
        self._gone = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._seen: dict[str, Any] = {"end": None, "http": None, "finish": None, "error_words": ()}

    def ask(self, *, stream: bool = True, max_tokens: int = 9, malformed: int | None = None) -> None:
        body = {"prompt": [1, 2], "max_tokens": max_tokens, "stream": stream, "temperature": 0}
        body |= {"return_token_ids": True} | ({"stream_options": {"include_usage": True}} if stream else {})
        raw = json.dumps(body).encode() if malformed is None else malformed_body(malformed, "fake", "completions")[1]
        headers = [(b"x-request-id", b"r"), (b"x-seatrial-load", b"l")]
        scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": headers, "query_string": b""}
        scope["extensions"] = {"seatrial.abort": self._abort}
        parts = iter([{"type": "http.request", "body": raw, "more_body": False}])

        async def receive() -> dict[str, Any]:
            part = next(parts, None)
            if part is None:
                await self._gone.wait()
                return {"type": "http.disconnect"}
            return part

        async def send(message: Any) -> None:
            self._hear(message)

        self._tasks.append(self._loop.create_task(self._app(scope, receive, send)))
        self.settle()

    def leave(self) -> None:
        if self._seen["end"] is None:
            self._seen["end"] = ClientEnd.CANCELLED
        self._gone.set()
        self.settle()

    def settle(self) -> None:
        async def spin() -> None:
            self._process._maintain()
            for _ in range(30):
                await asyncio.sleep(0)

        self._loop.run_until_complete(spin())

    def rows(self) -> list[ServedRow]:
        lines = [json.loads(line) for line in self._path.read_text().splitlines()]
        found = [{key: value for key, value in line.items() if key != "e"} for line in lines if line["e"] == "served"]
        return [ServedRow(**row)._replace(server_id="", proc="") for row in found]

    def marks(self) -> dict[str, int]:
        return dict(self.engine.env.counters.total)

    def outcome(self) -> Outcome | None:
        return None if self._seen["end"] is None else decide(**self._seen)

    def close(self) -> None:
        self.leave()
        for task in self._tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()
        self._journal.close()

    def _abort(self) -> None:
        if self._seen["end"] is None:
            self._seen["end"] = ClientEnd.CUT
            self.heard.append("cut")
        self._gone.set()

    def _hear(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._seen["http"] = message["status"]
            self._head = {name.decode(): value.decode() for name, value in message["headers"]}
            if "event-stream" in self._head["content-type"]:
                self.heard.append("head")
        elif "event-stream" in self._head["content-type"]:
            for part in message["body"].decode().split("\n\n"):
                if part and not self._seen["error_words"]:
                    self.heard.append(self._event(part.removeprefix("data: ")))
        else:
            self._seen["end"] = ClientEnd.DONE
            self.heard.append(self._body(json.loads(message["body"])))

    def _event(self, data: str) -> str:
        if data == "[DONE]":
            self._seen["end"] = ClientEnd.DONE
            return "done"
        chunk = json.loads(data)
        if "error" in chunk:
            self._seen |= {"end": ClientEnd.DONE, "error_words": (chunk["error"]["code"], chunk["error"]["type"])}
            return f"in band {chunk['error']['code']}"
        if not chunk["choices"]:
            return f"counts {chunk['usage']['prompt_tokens']}/{chunk['usage']['completion_tokens']}"
        (choice,) = chunk["choices"]
        if choice["finish_reason"] is None:
            return f"tokens {' '.join(map(str, choice['token_ids']))}"
        self._seen["finish"] = choice["finish_reason"]
        return f"finished {choice['finish_reason']}"

    def _body(self, body: dict[str, Any]) -> str:
        if "error" in body:
            return f"refused {self._seen['http']} {body['error']['code']} {self._head.get('retry-after', '')}".strip()
        (choice,), usage = body["choices"], body["usage"]
        self._seen["finish"] = choice["finish_reason"]
        counts = f"{usage['prompt_tokens']}/{usage['completion_tokens']}"
        return f"whole {' '.join(map(str, choice['token_ids']))} {choice['finish_reason']} {counts}"


class _Rows(Rows):
    """Keeps what would go to the recorder."""

    def __init__(self) -> None:
        self.kept: dict[str, list[Values]] = {}

    def put(self, table: str, values: Values) -> None:
        self.kept.setdefault(table, []).append(values)


class _Client(Client):
    def __init__(self, request: ClientRequest, now_ns: int, heard: list[str]) -> None:
        super().__init__(request, now_ns, now_ns, GapHistogram(0))
        self._heard = heard

    def receive(self, now_ns: int, event: events.Event) -> bool:
        self._heard.append(_word(event))
        return super().receive(now_ns, event)


class VirtualWorld:
    def __init__(self, folder: Path, submits_max: int = 64) -> None:
        self.time, self.heard = VirtualTime(), list[str]()
        self.engine = FakeServed(script, by_hand=True, submits_max=submits_max, clock=self.time)
        self._rows = _Rows()
        env, mailbox, context_tokens = self.engine.env, self.engine.mailbox, self.engine.context_tokens
        self._server = VirtualServer(env, self.time, mailbox, self._rows, context_tokens, CONFIG, lambda client: None)
        self._server.fatal = lambda: self.engine.fatal
        self.engine.start(self._server)
        self._client: _Client | None = None

    def ask(self, *, stream: bool = True, max_tokens: int = 9, malformed: int | None = None) -> None:
        kind = "load" if malformed is None else "malformed"
        row = malformed or 0
        request = ClientRequest("r", "l", kind, None, row, (1, 2), "", max_tokens, stream, 600.0, None)
        self._client = _Client(request, self.time.now_ns(), self.heard)
        self._server.receive(self._client)

    def leave(self) -> None:
        if self._client is not None and self._client.outcome is None:
            self._server.hang_up(self._client, ClientEnd.CANCELLED)

    def settle(self) -> None:
        now_ns = self.time.now_ns()
        if self.engine.env.faults.armed:
            self.engine.env.faults.tick(now_ns)
        while self.time.next_ns == now_ns:
            self.time.step()
        self._server.admission.end_overdue()
        self._server.write_counters()

    def rows(self) -> list[ServedRow]:
        return [ServedRow(*row)._replace(server_id="", proc="") for row in self._rows.kept.get("served", [])]  # type: ignore[arg-type]

    def marks(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, _, n in self._rows.kept.get("mark", []):
            found[str(name)] = found.get(str(name), 0) + int(n or 0)
        return found

    def outcome(self) -> Outcome | None:
        return None if self._client is None else self._client.outcome

    def close(self) -> None:
        pass


def _word(event: events.Event) -> str:
    match event:
        case events.Tokens(_, sampled):
            return f"tokens {' '.join(str(each.token) for each in sampled)}"
        case events.Finished(reason):
            return f"finished {reason}"
        case events.Counts(ended):
            return f"counts {ended.tokens_in}/{ended.tokens_out}"
        case events.WholeAnswer(_, sampled, reason, ended):
            return (
                f"whole {' '.join(str(each.token) for each in sampled)} {reason} {ended.tokens_in}/{ended.tokens_out}"
            )
        case events.Refusal(problem):
            return f"refused {problem.http} {problem.code} {problem.retry_after_s or ''}".strip()
        case events.InBandError(problem):
            return f"in band {problem.code}"
    return type(event).__name__.lower()


WORLDS: dict[str, Callable[..., World]] = {"http": HttpWorld, "virtual": VirtualWorld}
