"""A target that is none: one clear line, exit 4, nothing left running."""

import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.foreign.servers import free_port
from tests.harness.cli.conftest import Seatrial


@pytest.fixture
def web_page(tmp_path: Path) -> Iterator[str]:
    """A web server with nothing of an API."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def secure_shell() -> Iterator[str]:
    """Something that listens and speaks no HTTP."""
    listener = socket.create_server(("127.0.0.1", 0))

    def greet() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.sendall(b"SSH-2.0-OpenSSH_9.7\r\n")

    threading.Thread(target=greet, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        page = b"<html><title>Welcome to nginx!</title></html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


def refused(seatrial: Seatrial, *arguments: str) -> str:
    """The one line that it says."""
    before = psutil.Process().children(recursive=True)
    ran = seatrial("run", "your-server", *arguments)
    assert ran.returncode == 4, ran.stdout + ran.stderr
    lines = ran.stderr.strip().splitlines()
    assert len(lines) == 1, ran.stderr
    assert psutil.Process().children(recursive=True) == before
    return lines[0]


def test_port_where_nobody_listens(seatrial: Seatrial):
    line = refused(seatrial, "--target", f"http://127.0.0.1:{free_port()}")
    assert "nothing listens there; start the server or correct its address" in line


def test_web_page(seatrial: Seatrial, web_page: str):
    assert "does not list its models; name one with target.model or --model" in refused(seatrial, "--target", web_page)
    line = refused(seatrial, "--target", web_page, "--model", "m")
    assert "does not serve as an OpenAI-compatible server" in line
    assert "HTTP 200 with text/html that is not JSON" in line


def test_service_that_speaks_no_http(seatrial: Seatrial, secure_shell: str):
    assert "the connection failed (BadStatusLine)" in refused(seatrial, "--target", secure_shell)


def test_process_that_is_not_there(seatrial: Seatrial, web_page: str):
    line = refused(seatrial, "--target", web_page, "--pid", str(2**22 - 1))
    assert "there is no such process" in line


def test_target_that_is_not_this_machine_is_refused_before_a_byte_is_sent(seatrial: Seatrial):
    assert "add --allow-host 192.0.2.1:8000" in refused(seatrial, "--target", "http://192.0.2.1:8000")
