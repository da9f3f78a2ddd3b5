"""A whole server in this process, on a loopback port of its own, in front of the fake engine."""

import asyncio
import json
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from runtime.server.config import ADMIN_TOKEN_ENV, ServerConfig
from runtime.server.journal import Journal
from runtime.server.process import ServerProcess
from runtime.server.sockets import bind
from tests.runtime.server.fake import WAIT_S, FakeServed

TOKEN = "t0ken"


class Running:
    """A server process on a thread. All waits have an end."""

    def __init__(self, served: FakeServed, path: Path, config: ServerConfig, outcomes: Journal) -> None:
        self.served = served
        self.code: int | None = None
        self._path = path
        self._clients: list[Any] = []
        self._outcomes = outcomes
        ready: queue.Queue[str] = queue.Queue()

        async def serve() -> int:
            self.loop = asyncio.get_running_loop()
            self.process = ServerProcess(served, config, outcomes)
            return await self.process.run(
                bind("127.0.0.1", 0), bind("127.0.0.1", 0) if config.admin else None, ready.put
            )

        def work() -> None:
            self.code = asyncio.run(serve())

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()
        self.ready = json.loads(ready.get(timeout=WAIT_S))
        self.port: int = self.ready["port"]
        self.url = f"http://127.0.0.1:{self.port}"
        self.admin_url = f"http://127.0.0.1:{self.ready.get('admin_port')}"
        self.http = httpx.Client(base_url=self.url, timeout=WAIT_S)
        self._clients.append(self.http)

    def openai(self, **more: Any) -> openai.OpenAI:
        """The official client."""
        client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=WAIT_S, **more)
        self._clients.append(client)
        return client

    def admin(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {TOKEN}", **more.pop("headers", {})}
        return httpx.request(method, f"{self.admin_url}{path}", headers=headers, timeout=WAIT_S, **more)

    def connect(self, body: dict[str, Any], receive_bytes: int | None = None) -> socket.socket:
        """A raw completion; the answer is the caller's to read or not."""
        sock = socket.socket()
        self._clients.append(sock)
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.settimeout(WAIT_S)
        sock.connect(("127.0.0.1", self.port))
        raw = json.dumps(body).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: raw\r\nContent-Length: {len(raw)}\r\n\r\n"
        sock.sendall(head.encode() + raw)
        return sock

    def on_loop(self, do: Callable[[], Any]) -> Any:
        """Run on the server's loop, after what is under way there."""

        async def call() -> Any:
            return do()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(WAIT_S)

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """Lines of the record, once the loop has done what it had to do."""
        if self._thread.is_alive() and not self.loop.is_closed():
            self.on_loop(lambda: self.process.flush())
        return [row for line in self._path.read_text().splitlines() if (row := json.loads(line))["e"] == kind]

    def empty(self) -> None:
        """Wait until nobody is inside."""

        async def wait() -> None:
            async with asyncio.timeout(WAIT_S):
                await self.process.empty.wait()

        asyncio.run_coroutine_threadsafe(wait(), self.loop).result(WAIT_S)

    def join(self) -> int | None:
        """Wait for the server to end by itself."""
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "the server process did not end"
        return self.code

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.process.stop)
        self.join()
        self._outcomes.close()


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """`start(script, by_hand=..., **server settings)`; stopped at the end of the test."""
    monkeypatch.setenv(ADMIN_TOKEN_ENV, TOKEN)
    running: list[Running] = []

    def begin(script: Any = None, *, by_hand: bool = False, submits_max: int = 64, **settings: Any) -> Running:
        path = tmp_path / f"outcomes{len(running)}.jsonl"
        outcomes = Journal(str(path))
        scripted = {"script": script} if script is not None else {}
        served = FakeServed(**scripted, by_hand=by_hand, submits_max=submits_max, evidence=outcomes)
        settings = {"stop_grace_s": 0.2, "outcomes": str(path), **settings}
        running.append(Running(served, path, ServerConfig(**settings), outcomes))
        return running[-1]

    yield begin
    for each in running:
        each.stop()
