"""Servers that are there before seatrial is: started as a user would, and ended whatever happens."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

READY_MAX_S = 120.0
GRACE_S = 15.0


@contextlib.contextmanager
def served(argv: Sequence[str], port: int, health: str, log: Path, **environment: str) -> Iterator[int]:
    """Run a server until the end of the block; yields the pid that was started. It is ready once `health` says 200."""
    with log.open("wb") as sink:
        mine = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        process = subprocess.Popen(argv, stdout=sink, stderr=sink, env=mine, start_new_session=True)
    try:
        until = time.monotonic() + READY_MAX_S
        while not _answers(f"http://127.0.0.1:{port}{health}"):
            words = log.read_text(errors="replace")[-2000:]
            assert process.poll() is None, f"{argv[0]} ended with {process.returncode}:\n{words}"
            assert time.monotonic() < until, f"{argv[0]} was not ready within {READY_MAX_S:g} s:\n{words}"
            time.sleep(0.2)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(GRACE_S)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def own_server(port: int) -> list[str]:
    """Our built-in server, as `seatrial serve` starts it by hand."""
    return [sys.executable, "-m", "harness", "serve", "--port", str(port)]


def bad_server(port: int, vice: str) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("bad_server.py")), str(port), vice]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2.0) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False
