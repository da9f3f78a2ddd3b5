"""Real vLLM on CPU for half an hour: it passes with its engine process watched, and a proxy in front that leaks fails.

For the nights, where vLLM is installed: on PATH, or its program in SEATRIAL_VLLM (a virtual environment of its own).
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios import library
from tests.foreign.conftest import Seatrial
from tests.foreign.model import write_wide_model
from tests.foreign.servers import free_port, served

VLLM = os.environ.get("SEATRIAL_VLLM") or shutil.which("vllm")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.live,
    pytest.mark.soak,
    pytest.mark.timeout(2 * 3600),
    pytest.mark.skipif(VLLM is None, reason="vLLM is not installed: put it on PATH, or its program in SEATRIAL_VLLM"),
]
WHOLE_S = 3000
HALF_HOUR = {
    # its memory levels off within five minutes
    'warmup    = { completed = 20, max = "60s" }': 'warmup    = { completed = 400, max = "10m" }',
    'trial     = "60s"': 'trial     = "30m"',
    'quiesce   = { every = "30s", max = "60s" }': 'quiesce   = { every = "225s", max = "60s" }',
}
LEAKS = """
[[check]]
that = "leak.sockets < 30/h"

[[check]]
that = "leak.rss_anon < 250MiB/h"
"""


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server with our default weights."""
    assert VLLM is not None
    directory, port = tmp_path_factory.mktemp("vllm"), free_port()
    argv = [VLLM, "serve", str(write_wide_model(directory / "model")), "--port", str(port), "--dtype", "float32"]
    argv += ["--max-model-len", "512", "--enforce-eager", "--host", "127.0.0.1"]
    path = f"{Path(VLLM).parent}{os.pathsep}{os.environ['PATH']}"
    settings = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "PATH": path}
    settings["VLLM_CPU_OMP_THREADS_BIND"] = "0"  # its threads spin: the load needs a core of its own
    with served(argv, port, "/health", directory / "vllm.log", **settings):
        yield port


def half_an_hour(directory: Path) -> str:
    text = library.find("your-server").read_text()
    for was, becomes in HALF_HOUR.items():
        assert was in text
        text = text.replace(was, becomes)
    path = directory / "half-hour.toml"
    path.write_text(text + LEAKS)
    return str(path)


def test_vllm_serves_half_an_hour_without_growing_and_its_engine_process_is_watched(
    seatrial: Seatrial, tmp_path: Path, vllm: int
) -> None:
    ran = seatrial("run", half_an_hour(tmp_path), "--target", f"http://127.0.0.1:{vllm}", timeout_s=WHOLE_S)
    assert ran.exit == 0, ran.out + ran.err
    assert {ran.judge(name)["state"] for name in ("answered", "tokens", "reclamation", "leak.sockets <")} == {"PASS"}
    assert any("Worker" in name for name in ran.series("server.child.")), ran.series("server.child.")


def test_a_proxy_in_front_that_keeps_its_connections_is_a_leak_of_sockets(
    seatrial: Seatrial, tmp_path: Path, vllm: int
) -> None:
    port = free_port()
    argv = [sys.executable, str(Path(__file__).with_name("leaky_proxy.py")), str(port), str(vllm)]
    with served(argv, port, "/health", tmp_path / "proxy.log"):
        ran = seatrial("run", half_an_hour(tmp_path), "--target", f"http://127.0.0.1:{port}", timeout_s=WHOLE_S)
    assert ran.exit == 1, ran.out + ran.err
    leaked = ran.judge("leak.sockets <")
    assert leaked["state"] == "FAIL"
    assert leaked["owner"].startswith("server")
    assert leaked["figures"]["per_hour"] > 1000
