"""A tiny server that speaks the completions API well but for one vice. Run as a program: `bad_server.py PORT VICE`.

leaks     a client who leaves stays in the gauge of running requests for ever
garbles   each 5th stream has an event in it that is no JSON
"""

import hashlib
import itertools
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN_S = 0.02


class State:
    """What the metrics page shows."""

    def __init__(self, vice: str) -> None:
        self.vice = vice
        self.running = 0
        self.numbers = itertools.count()
        self.lock = threading.Lock()

    def move(self, by: int) -> None:
        with self.lock:
            self.running += by


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: State

    def do_GET(self) -> None:
        pages = {
            "/health": "ok",
            "/v1/models": json.dumps({"data": [{"id": "tiny"}]}),
            "/metrics": f"vllm:num_requests_running {self.state.running}\nvllm:num_requests_waiting 0\n",
        }
        page = pages.get(self.path)
        self._whole(404 if page is None else 200, page or "no such page")

    def do_POST(self) -> None:
        asked = self._asked()
        if asked is None or self.path != "/v1/completions":
            error = {"error": {"message": "no", "type": "invalid_request_error"}}
            self._whole(404 if asked else 400, json.dumps(error))
            return
        words = hashlib.sha256(str(asked["prompt"]).encode()).hexdigest()[: int(asked["max_tokens"])]
        if not asked.get("stream"):
            self._whole(200, json.dumps({"choices": [{"text": words, "finish_reason": "length"}]}))
            return
        self.state.move(1)
        try:
            self._stream(words)
        except OSError:
            self.close_connection = True
            if self.state.vice == "leaks":
                return
        self.state.move(-1)

    def _asked(self) -> dict[str, Any] | None:
        try:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            good = isinstance(asked["prompt"], str) and 0 < asked["max_tokens"] < 10_000
        except (ValueError, KeyError, TypeError):
            return None
        return asked if good else None

    def _stream(self, words: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        garbled = self.state.vice == "garbles" and next(self.state.numbers) % 5 == 4
        for at, word in enumerate(words):
            time.sleep(TOKEN_S)
            finish = "length" if at == len(words) - 1 else None
            self._event("{what" if garbled and at == 1 else self._chunk(word, finish))
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, word: str, finish: str | None) -> str:
        return json.dumps({"choices": [{"index": 0, "text": word, "finish_reason": finish}]})

    def _event(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        self.wfile.flush()

    def _whole(self, status: int, page: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(page.encode())))
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    Handler.state = State(sys.argv[2])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
