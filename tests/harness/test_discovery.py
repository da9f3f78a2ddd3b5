"""What is found of a server on this machine that somebody else started."""

import http.server
import os
import threading
from collections.abc import Iterator

import pytest

from harness.discovery import discover
from harness.telemetry.listeners import listener, port_of
from scenarios.read import Document, read_text

TEXT = """
schema = 1
name = "small"
means = "x"
phases = { warmup = { completed = 10 }, trial = "60s" }
load = [{ id = "chat", rate = "2/s" }]
limits = { requests = 9, tokens = 9, rate = "1/s", in_flight = 1, wall = "60s" }
"""


@pytest.fixture
def page() -> Iterator[tuple[str, list[str]]]:
    """A server whose /metrics is what the list holds, a line each; an empty list is a 404."""
    lines: list[str] = []

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = "\n".join([*lines, ""]).encode()
            self.send_response(200 if lines and self.path == "/metrics" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", lines
    server.shutdown()
    server.server_close()


def at(url: str, more: str = "") -> Document:
    return read_text(TEXT + f"[target]\nkind = 'url'\nurl = '{url}'\n{more}")


def test_the_process_that_listens_is_found_and_told(page):
    url, _ = page
    document, said = discover(at(url))
    assert document.scenario.target.pid == os.getpid()
    assert document.scenario.target.metrics is None
    assert len(said) == 1
    assert f"{url}: process {os.getpid()} (" in said[0]


@pytest.mark.parametrize(
    ("line", "preset"), [("vllm:num_requests_running 0", "vllm"), ("sglang:num_running_reqs 0", "sglang")]
)
def test_the_metrics_page_is_found_and_read_as_what_it_speaks(page, line, preset):
    url, lines = page
    lines.append(line)
    document, said = discover(at(url + "/v1"))
    assert (document.scenario.target.metrics, document.scenario.target.metrics_preset) == (f"{url}/metrics", preset)
    assert f"metrics of {preset} found" in said[1]


def test_a_page_without_a_gauge_that_a_judge_could_use_is_left_alone(page):
    url, lines = page
    lines.append("vllm:prompt_tokens_total 7")
    assert discover(at(url))[0].scenario.target.metrics is None


def test_what_was_written_down_stands(page):
    url, lines = page
    lines.append("vllm:num_requests_running 0")
    written = at(url, "pid = 1\nmetrics = 'http://127.0.0.1:1/metrics'\n")
    assert discover(written) == (written, ())


def test_no_other_machine_is_looked_at_and_nothing_for_a_server_of_our_own():
    for document in (at("http://192.0.2.1:8000"), read_text(TEXT)):
        assert discover(document) == (document, ())


def test_a_port_where_nobody_listens_has_no_process():
    assert listener(9) is None


def test_a_url_without_a_port_has_that_of_its_scheme():
    assert (port_of("http://a"), port_of("https://a"), port_of("http://a:81")) == (80, 443, 81)
