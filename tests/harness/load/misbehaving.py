"""A small HTTP server on threads that does exactly what a test's script says, down to the byte.

    with Misbehaving(send(HEAD_SSE), send(chunk(b"data: ...")), cut()) as server: ...

Each connection reads one request and plays the script; `server.requests` holds what it read. Steps may wait for the
test (`hold`), so no test has to sleep.
"""

import json
import socket
import threading
from collections.abc import Callable
from types import TracebackType

Step = Callable[["Misbehaving", socket.socket], None]

HEAD_SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
HEAD_SSE_UNFRAMED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


class Misbehaving:
    def __init__(self, *script: Step) -> None:
        self.script = script
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.released = threading.Event()  # opens every `hold`
        self.reached = threading.Event()  # set by every `hold`
        self.peer_closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> "Misbehaving":
        self._threads[0].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.released.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with peer, peer.makefile("rb") as reader:
            try:
                while (request := _read_request(reader)) is not None:
                    self.requests.append(request)
                    for step in self.script:
                        step(self, peer)
                    if peer.fileno() < 0:
                        return
                self.peer_closed.set()
            except (ConnectionError, ValueError):
                self.peer_closed.set()


def send(*parts: bytes) -> Step:
    """Send the bytes, each part by itself."""

    def step(server: Misbehaving, peer: socket.socket) -> None:
        for part in parts:
            peer.sendall(part)

    return step


def hold() -> Step:
    """Wait until the test releases us (at most 10 s)."""

    def step(server: Misbehaving, peer: socket.socket) -> None:
        server.reached.set()
        server.released.wait(10)

    return step


def await_close() -> Step:
    """Wait until the client has gone."""

    def step(server: Misbehaving, peer: socket.socket) -> None:
        peer.settimeout(10)
        try:
            while peer.recv(4096):
                pass
        except ConnectionError:
            pass
        server.peer_closed.set()
        peer.close()

    return step


def cut() -> Step:
    """Reset the connection in the middle of whatever it is."""

    def step(server: Misbehaving, peer: socket.socket) -> None:
        peer.shutdown(socket.SHUT_RDWR)
        peer.close()

    return step


def chunk(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(text: str | None = None, finish: str | None = None, **extra: object) -> bytes:
    """One chat event."""
    delta = {} if text is None else {"content": text}
    body = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **extra}
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()


def usage(prompt: int, completion: int) -> bytes:
    """The last event of a stream that was asked for its usage."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return f"data: {json.dumps({'choices': [], 'usage': counts})}\n\n".encode()


def head(status: str, body: bytes = b"", *lines: str) -> bytes:
    """A whole reply with Content-Length."""
    rows = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Content-Type: application/json", *lines]
    return "\r\n".join(rows).encode() + b"\r\n\r\n" + body


def _read_request(reader: socket.SocketIO) -> tuple[str, dict[str, str], bytes] | None:  # type: ignore[name-defined]
    first = reader.readline()
    if not first:
        return None
    headers: dict[str, str] = {}
    while (row := reader.readline().decode("latin-1").strip()) != "":
        name, _, value = row.partition(":")
        headers[name.lower()] = value.strip()
    return first.decode().strip(), headers, reader.read(int(headers.get("content-length", "0")))
