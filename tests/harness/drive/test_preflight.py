import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from harness.drive.preflight import TargetProblem, first_answer

GOOD = (200, "application/json", json.dumps({"choices": [{"text": "x"}]}))
MODELS = (200, "application/json", json.dumps({"data": [{"id": "m"}]}))
PAGE = (200, "text/html", "<html>welcome</html>")


@pytest.fixture
def serve() -> Iterator:
    servers = []

    def start(answers: dict[str, tuple[int, str, str]]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, kind, body = answers.get(self.path, (404, "text/plain", "no such page"))
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
    with pytest.raises(TargetProblem, match=r"HTTP 200 with text/html that is no JSON"):
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
    with pytest.raises(TargetProblem, match="NO_SUCH_KEY, which is not set"):
        first_answer("http://127.0.0.1:9", "m", "NO_SUCH_KEY")
