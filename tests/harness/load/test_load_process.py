"""The load process as its parent sees it: real Locust, real pipes, a server that we script."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from misbehaving import DONE, HEAD_SSE, LAST_CHUNK, Misbehaving, chunk, event, hold, send, usage

GOOD = (send(HEAD_SSE), send(chunk(event("a", "stop"))), send(chunk(usage(9, 1))), send(chunk(DONE), LAST_CHUNK))
LOADS = [{"id": "chat", "rate": 40.0}, {"id": "users", "arrivals": "closed", "users": 2, "rate": 20.0}]


class Process:
    """A load process and the lines it says."""

    def __init__(self, tmp_path: Path, url: str, **more: Any) -> None:
        self.spool = tmp_path / "requests.jsonl"
        base = {"config": 1, "spool": str(self.spool), "url": url, "model": "m", "seed": 7, "load": LOADS}
        (tmp_path / "config.json").write_text(json.dumps({**base, **more}))
        words = [sys.executable, "-m", "harness.load", str(tmp_path / "config.json")]
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1)

    def tell(self, **command: Any) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(command) + "\n")

    def hear(self, kind: str) -> dict[str, Any]:
        """The next line of this kind; others before it are passed over."""
        assert self.child.stdout is not None
        for line in self.child.stdout:
            said = json.loads(line)
            if said["e"] == kind:
                return dict(said)
        raise AssertionError(f"the process ended without {kind}: {self.errors()}")

    def await_done(self, least: int) -> dict[str, Any]:
        """Ask until so many requests are over."""
        while True:
            self.tell(cmd="status")
            said = self.hear("ack")
            if said["done"] >= least:
                return said

    def errors(self) -> str:
        assert self.child.stderr is not None
        return self.child.stderr.read()

    def lines(self, kind: str) -> list[dict[str, Any]]:
        rows = [json.loads(row) for row in self.spool.read_text().splitlines()]
        return [row for row in rows if row["e"] == kind]

    def end(self) -> None:
        self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[Process, Misbehaving]]:
    with Misbehaving(*GOOD) as server:
        process = Process(tmp_path, server.url, canary={"every_s": 0.2, "prompts": 2})
        yield process, server
        process.end()


def test_a_whole_session_from_ready_to_stopped(started: tuple[Process, Misbehaving]) -> None:
    process, _ = started
    assert process.hear("ready")["loads"] == ["chat", "users"]
    process.tell(cmd="start")
    assert process.hear("ack")["cmd"] == "start"
    process.tell(cmd="start")
    assert "started already" in process.hear("refused")["why"]
    process.tell(cmd="phase", name="trial", n=0)
    process.await_done(20)
    process.tell(cmd="pause")
    idle = process.hear("idle")
    assert idle["in_flight"] == 0
    process.tell(cmd="status")
    assert process.hear("ack")["sent"] == idle["sent"]  # nothing goes out in a pause
    process.tell(cmd="resume")
    process.await_done(idle["done"] + 10)
    process.tell(cmd="stop", drain_s=10)
    stopped = process.hear("stopped")
    assert process.child.wait(20) == 0
    assert (stopped["unfinished"], stopped["failure"]) == (0, None)
    requests, replies = process.lines("request"), process.lines("reply")
    assert len(requests) == stopped["sent"] == len(replies)
    assert {reply["outcome"] for reply in replies} == {"ok"}
    assert {request["load"] for request in requests} == {"chat", "users", "canary"}
    assert [line["kind"] for line in process.lines("event")] == ["start", "begin", "phase", "pause", "resume", "stop"]
    assert process.lines("self")
    assert process.lines("canary_reply")


def test_a_parent_that_dies_ends_the_load_at_once(started: tuple[Process, Misbehaving]) -> None:
    process, server = started
    server.script = (send(HEAD_SSE), hold())
    process.hear("ready")
    process.tell(cmd="start")
    assert server.reached.wait(20)
    assert process.child.stdin is not None
    process.child.stdin.close()
    assert process.child.wait(20) == 5
    assert process.lines("event")[-1]["detail"] == "the parent is gone"
    assert {reply["outcome"] for reply in process.lines("reply")} == {"unfinished"}


def test_a_killed_load_leaves_what_it_sent_and_no_reply(started: tuple[Process, Misbehaving]) -> None:
    process, server = started
    server.script = (send(HEAD_SSE), hold())
    process.hear("ready")
    process.tell(cmd="start")
    assert server.reached.wait(20)
    process.child.kill()
    process.child.wait(20)
    assert process.lines("request")
    assert not process.lines("reply")


def test_a_breaker_tells_the_parent(tmp_path: Path) -> None:
    with Misbehaving(*GOOD) as server:
        process = Process(tmp_path, server.url, politeness={"ramp_from_per_s": None, "requests_max": 3})
        try:
            process.tell(cmd="start")
            assert process.hear("breaker")["why"] == "limit of 3 requests reached"
            process.tell(cmd="stop", drain_s=10)
            assert process.hear("stopped")["sent"] == 3
        finally:
            process.end()


def test_a_bad_config_is_told_on_stderr_with_code_4(tmp_path: Path) -> None:
    process = Process(tmp_path, "http://127.0.0.1:9", api="embeddings")
    out, errors = process.child.communicate(timeout=30)
    assert (process.child.returncode, out) == (4, "")
    assert "api is 'embeddings'; give 'chat' or 'completions'" in errors


PRUNE = """
from harness.load.locustfile import Environment, prune
environment = Environment()
stats = environment.stats
for second in range(1000):
    for per_second in (stats.total.num_reqs_per_sec, stats.entries["chat", "E2E"].num_fail_per_sec):
        per_second[second] += 1
stats.history += [{}] * 5000
prune(environment, 1000.0)
print(len(stats.total.num_reqs_per_sec), len(stats.entries["chat", "E2E"].num_fail_per_sec), len(stats.history))
"""


def test_what_locust_would_keep_for_ever_is_pruned() -> None:
    done = subprocess.run([sys.executable, "-c", PRUNE], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "60 60 720\n"


@pytest.mark.slow
@pytest.mark.live
def test_a_plain_locust_on_our_file_measures_and_ends_well(tmp_path: Path) -> None:
    with Misbehaving(*GOOD) as server:
        words = ["-m", "locust", "-f", "harness/load/locustfile.py", "--host", server.url, "--headless", "-u2", "-r2"]
        environ = {
            "PATH": "/usr/bin:/bin",
            "SEATRIAL_RATE": "20",
            "SEATRIAL_MODEL": "m",
            "SEATRIAL_SPOOL": str(tmp_path / "plain.jsonl"),
        }
        done = subprocess.run(
            [sys.executable, *words, "-t", "2s"], env=environ, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    assert "TTFT     chat" in done.stderr
    assert "E2E      chat" in done.stderr
    for name in ("plain.0.jsonl", "plain.1000.jsonl"):
        rows = [json.loads(row) for row in (tmp_path / name).read_text().splitlines()]
        assert [row["outcome"] for row in rows if row["e"] == "reply"].count("ok") > 5
