import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from harness.load.preflight import Answer, NotReady, TargetProblem, _ask_for_stream, first_answer
from tests.harness.load.misbehaving import DONE, HEAD_SSE, LAST_CHUNK, Misbehaving, chunk, event, send

GOOD = (200, "application/json", json.dumps({"choices": [{"text": "x"}]}))
MODELS = (200, "application/json", json.dumps({"data": [{"id": "m"}]}))
PAGE = (200, "text/html", "<html>welcome</html>")


@pytest.fixture
def serve() -> Iterator:
    servers = []

    def start(answers: dict[str, Any]) -> str:
        """What each path answers: status, content type and body, or a function of the asked body that says so."""

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer = answers.get(self.path, (404, "text/plain", "no such page"))
                status, kind, body = answer(json.loads(asked)) if callable(answer) else answer
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_good_server_is_found_with_its_model(serve):
    answer = first_answer(serve({"/v1/models": MODELS, "/v1/completions": GOOD}), None, None)
    assert (answer.model, answer.api) == ("m", "completions")


def test_server_with_chat_only_is_found_and_a_broken_model_list_is_forgiven_when_the_model_is_named(serve):
    broken = (500, "text/plain", "Internal Server Error")
    answer = first_answer(serve({"/v1/models": broken, "/v1/chat/completions": GOOD}), "mine", None)
    assert (answer.model, answer.api) == ("mine", "chat")


def test_nothing_listening_is_one_clear_line():
    with pytest.raises(TargetProblem, match=r"http://127.0.0.1:9/v1/models: nothing listens there; start the server"):
        first_answer("http://127.0.0.1:9", None, None)


def test_web_page_is_no_openai_server(serve):
    url = serve({"/v1/models": PAGE, "/v1/completions": PAGE, "/v1/chat/completions": PAGE})
    with pytest.raises(TargetProblem, match=r"HTTP 200 with text/html that is not JSON"):
        first_answer(url, "m", None)


def test_unnamed_model_of_a_server_without_a_list_asks_for_a_name(serve):
    with pytest.raises(TargetProblem, match=r"name one with target\.model or --model"):
        first_answer(serve({"/v1/completions": GOOD}), None, None)


def test_json_that_is_no_completion_is_said_to_be_so(serve):
    odd = (200, "application/json", "[1, 2]")
    with pytest.raises(TargetProblem, match="JSON that has no choices"):
        first_answer(serve({"/v1/completions": odd, "/v1/chat/completions": odd}), "m", None)


def test_control_characters_of_an_answer_do_not_reach_the_terminal(serve):
    rude = (500, "text/plain", "\x1b[31mred\x00")
    with pytest.raises(TargetProblem) as caught:
        first_answer(serve({"/v1/completions": rude, "/v1/chat/completions": rude}), "m", None)
    assert "\x1b" not in str(caught.value)


def test_missing_key_variable_is_named(monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(TargetProblem, match="NO_SUCH_KEY is not set"):
        first_answer("http://127.0.0.1:9", "m", "NO_SUCH_KEY")


def test_the_dialect_of_a_stream_without_done_is_told():
    whole = [send(HEAD_SSE, chunk(event("a", "stop")), LAST_CHUNK)]
    with Misbehaving(*whole) as server:
        found = _ask_for_stream({}, server.url, {}, Answer("m", "chat"), 5.0)
    assert isinstance(found, Answer)
    assert not found.wants_done
    assert "end without [DONE]" in found.notes[0]


def test_a_stream_with_done_has_no_notes():
    with Misbehaving(send(HEAD_SSE, chunk(event("a", "stop")), chunk(DONE), LAST_CHUNK)) as server:
        assert _ask_for_stream({}, server.url, {}, Answer("m", "chat"), 5.0) == Answer("m", "chat")


def test_fields_that_a_strict_server_refuses_are_left_out(serve):
    refused = []

    def strict(body: dict[str, object]) -> tuple[int, str, str]:
        unknown = [name for name in ("seed", "stream_options") if name in body]
        refused.append(unknown)
        return (422, "application/json", f'{{"detail": "unknown {unknown}"}}') if unknown else GOOD

    answer = first_answer(serve({"/v1/models": MODELS, "/v1/completions": strict}), None, None)
    assert answer.leave_out == ("stream_options", "seed")
    assert "refuses stream_options and seed" in answer.notes[0]


def test_api_whose_streams_are_garbage_is_passed_over(serve):
    def garbled(body: dict[str, object]) -> tuple[int, str, str]:
        return (200, "text/event-stream", "data: {what\n\n") if body.get("stream") else GOOD

    both = {"/v1/models": MODELS, "/v1/completions": garbled}
    assert first_answer(serve({**both, "/v1/chat/completions": GOOD}), None, None).api == "chat"
    with pytest.raises(TargetProblem, match="as a stream: malformed"):
        first_answer(serve(both), None, None)


def test_server_that_says_it_is_not_ready_is_told_from_one_that_is_wrong(serve):
    loading = (503, "application/json", '{"error": "loading model"}')
    with pytest.raises(NotReady, match="loading model"):
        first_answer(serve({"/v1/completions": loading}), "m", None)


def test_page_that_never_ends_does_not_hold_us():
    def drip(server: Misbehaving, peer: socket.socket) -> None:
        while not server.released.wait(0.02):
            peer.sendall(b"tick ")

    with Misbehaving(send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"), drip) as server:
        with pytest.raises(TargetProblem, match="text/plain that is not JSON"):
            first_answer(server.url, "m", None, timeout_s=0.2)
        server.released.set()


def test_endless_stream_does_not_hold_us():
    def talk(server: Misbehaving, peer: socket.socket) -> None:
        while not server.released.wait(0.02):
            peer.sendall(chunk(event("on and on ")))

    with Misbehaving(send(HEAD_SSE), talk) as server:
        said = _ask_for_stream({}, server.url, {}, Answer("m", "chat"), 0.3)
        server.released.set()
    assert "as a stream: timeout" in str(said)
