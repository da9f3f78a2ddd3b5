"""your-server and the installed command against servers that we did not write, or do not start."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.foreign.conftest import Seatrial, quick
from tests.foreign.model import write_model
from tests.foreign.servers import bad_server, free_port, listens, own_server, served

pytestmark = [pytest.mark.slow, pytest.mark.live, pytest.mark.timeout(400)]
NEEDED = ("fastapi", "accelerate", "uvicorn", "openai")
BROKEN = """[[load]]                # nonsense must be refused with a 4xx, and must not hold up the others
id        = "broken"
arrivals  = "constant"
rate      = "0.1/s"
malformed = 1
timeout   = "5s"
"""


@pytest.fixture
def transformers_serve(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Port and pid of a `transformers serve` with a small random model."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    assert not missing, f"no {', '.join(missing)}: pip install -c constraints.txt -e '.[dev,serving]'"
    port, model = free_port(), write_model(tmp_path / "model")
    argv = [str(Path(sys.executable).with_name("transformers")), "serve", str(model), "--host", "127.0.0.1"]
    argv += ["--port", str(port), "--device", "cpu"]
    with served(argv, port, "/health", tmp_path / "serve.log", HF_HUB_OFFLINE="1") as pid:
        yield port, pid


def test_transformers_serve_passes_although_its_streams_end_without_done(
    seatrial: Seatrial, tmp_path: Path, transformers_serve: tuple[int, int]
):
    port, pid = transformers_serve
    calm = seatrial("run", quick(tmp_path, **{BROKEN: ""}), "--target", f"http://127.0.0.1:{port}")
    assert calm.exit == 0, calm.out + calm.err
    assert f"process {pid} (" in calm.out
    assert "streams end without [DONE]" in calm.out
    assert calm.judge("tokens")["state"] == "PASS"
    assert calm.judge("tokens")["figures"]["equal"] > 5
    assert calm.judge("reclamation")["state"] == "NOT_JUDGED"
    assert "give target.metrics, or --metrics URL" in " ".join(calm.out.split())


@pytest.mark.soak  # that `answered` fails with the request is seen of garbled streams in CI
def test_transformers_serve_fails_by_the_nonsense_that_it_takes_and_by_nothing_else(
    seatrial: Seatrial, tmp_path: Path, transformers_serve: tuple[int, int]
):
    """It answers 500 to two forms of nonsense, and serves nobody while it works on a request for 10^12 tokens."""
    rude = quick(tmp_path, **{'rate      = "0.1/s"': 'rate      = "0.3/s"'})
    whole = seatrial("run", rude, "--target", f"http://127.0.0.1:{transformers_serve[0]}")
    assert whole.exit == 1, whole.out + whole.err
    answered = whole.judge("answered")
    assert {each["request"].rpartition("-")[0] for each in answered["evidence"] if each["request"]} == {"broken"}
    assert "malformed on purpose, it must be refused with a 4xx" in answered["summary"]
    states = {each: whole.judge(each)["state"] for each in ("alive", "tokens", "load")}
    assert states == {"alive": "PASS", "tokens": "PASS", "load": "PASS"}


@pytest.mark.soak
def test_our_own_server_started_by_hand_passes_with_what_was_given_back(seatrial: Seatrial, tmp_path: Path):
    port = free_port()
    with served(own_server(port), port, "/health", tmp_path / "server.log"):
        ran = seatrial("run", "your-server", "--target", f"http://127.0.0.1:{port}/v1")
    assert ran.exit == 0, ran.out + ran.err
    said = " ".join(ran.out.split())
    assert "its memory and descriptors are sampled" in said
    assert "/metrics: metrics of vllm found" in said
    reclamation = ran.judge("reclamation")
    assert reclamation["state"] == "PASS"
    assert reclamation["observed"].startswith("running 0, KV use 0; RSS ")
    assert (reclamation["figures"]["server.running"], reclamation["figures"]["kv.usage"]) == (0.0, 0.0)
    assert reclamation["figures"]["rss_cancels"] > 10
    assert ran.judge("tokens")["figures"]["equal"] > 20


@pytest.mark.soak
def test_command_of_the_user_is_started_watched_where_it_serves_and_ended(seatrial: Seatrial, tmp_path: Path):
    port = free_port()
    target = f"""kind = "command"
command = {json.dumps(own_server(port))}
metrics = "http://127.0.0.1:{port}/metrics"
url  = "http://127.0.0.1:{port}"
"""
    was = 'kind = "url"\nurl  = "http://127.0.0.1:8000"\n'
    ran = seatrial("run", quick(tmp_path, **{was: target}))
    assert ran.exit == 0, ran.out + ran.err
    reclamation = ran.judge("reclamation")
    assert reclamation["state"] == "PASS"
    assert reclamation["figures"]["rss_cancels"] > 0  # so a process was watched; a supervisor would not grow at all
    assert not listens(port)
    assert ran.left_running() == []


@pytest.mark.soak
def test_server_that_keeps_who_left_in_its_gauge_fails_reclamation_and_nothing_else(seatrial: Seatrial, tmp_path: Path):
    port = free_port()
    with served(bad_server(port, "leaks"), port, "/health", tmp_path / "leaks.log"):
        leaky = seatrial("run", quick(tmp_path), "--target", f"http://127.0.0.1:{port}")
    assert leaky.exit == 1, leaky.out + leaky.err
    reclamation = leaky.judge("reclamation")
    assert reclamation["state"] == "FAIL"
    assert "server.running is" in reclamation["summary"]
    assert "per 1,000 cancels" in reclamation["observed"]
    assert {leaky.judge(each)["state"] for each in ("answered", "alive", "tokens", "load")} == {"PASS"}


def test_server_whose_streams_hold_garbage_fails_answered_with_the_request(seatrial: Seatrial, tmp_path: Path):
    port = free_port()
    with served(bad_server(port, "garbles"), port, "/health", tmp_path / "garbles.log"):
        ran = seatrial("run", quick(tmp_path), "--target", f"http://127.0.0.1:{port}")
    assert ran.exit == 1, ran.out + ran.err
    answered = ran.judge("answered")
    assert answered["state"] == "FAIL"
    assert "ended malformed" in answered["summary"]
    assert answered["evidence"][0]["request"]


def test_server_that_dies_in_the_trial_ends_the_run_at_once_and_fails_alive(seatrial: Seatrial, tmp_path: Path):
    port = free_port()
    with served(bad_server(port, "none"), port, "/health", tmp_path / "dies.log") as pid:
        ran = seatrial("run", quick(tmp_path), "--target", f"http://127.0.0.1:{port}", kill_in_trial=pid)
    assert ran.exit == 1, ran.out + ran.err
    alive = ran.judge("alive")
    assert alive["state"] == "FAIL"
    assert f"the server is gone: process {pid} has ended" in alive["summary"]
    assert "the run ends early" in ran.out
