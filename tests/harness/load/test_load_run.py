"""A whole load without Locust: threads do the work, the clock and the sleep are the test's where time matters."""

import itertools
import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from misbehaving import DONE, HEAD_SSE, LAST_CHUNK, Misbehaving, chunk, event, head, hold, send, usage

from faults.spec import LOAD_HEADER
from harness.load.closed_loop import closed_users
from harness.load.config import LoadConfig, parse_config
from harness.load.dispatch import canaries, dispatch, schedule
from harness.load.outcome import Outcome
from harness.load.run import LoadRun, Ports
from harness.load.spool import Spool, SpoolFull
from runtime.config import ConfigProblems

THREADS = Ports(time.monotonic_ns, time.sleep, lambda work: threading.Thread(target=work, daemon=True).start())
GOOD = (send(HEAD_SSE), send(chunk(event("a", "stop"))), send(chunk(usage(9, 1))), send(chunk(DONE), LAST_CHUNK))


def config(
    tmp_path: Path, url: str = "http://127.0.0.1:9", loads: list[dict[str, Any]] | None = None, **more: Any
) -> LoadConfig:
    loads = loads if loads is not None else [{"id": "chat", "rate": 50.0}]
    base = {"config": 1, "spool": str(tmp_path / "requests.jsonl"), "url": url, "model": "m", "seed": 7, "load": loads}
    return parse_config({**base, **more})


def spooled(run: LoadRun, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(row) for row in run.config.spool.read_text().splitlines()]
    return [line for line in lines if line["e"] == kind]


class Jumping:
    """A clock that moves only when someone sleeps, so a schedule of minutes takes no time."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000
        self.spawned: list[Any] = []

    def clock_ns(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += max(1, int(seconds * 1e9))

    def ports(self) -> Ports:
        return Ports(self.clock_ns, self.sleep, self.spawned.append)


def open_run(config: LoadConfig, ports: Ports | None = None) -> LoadRun:
    return LoadRun(config, Spool(config.spool), ports or THREADS)


def test_every_arrival_is_offered_at_its_intended_time(tmp_path: Path) -> None:
    world = Jumping()
    run = open_run(
        config(tmp_path, loads=[{"id": "a", "rate": 5.0}, {"id": "b", "arrivals": "constant", "rate": 2.0}]),
        world.ports(),
    )
    offered: list[tuple[str, int]] = []
    run.offer = lambda planned, intended_ns: offered.append((planned.request.id, intended_ns))  # type: ignore[method-assign]
    run.plan_clock.start(world.now_ns)
    begun_ns = world.now_ns
    world_end_ns = begun_ns + 60_000_000_000
    real_sleep = world.sleep

    def sleep(seconds: float) -> None:
        real_sleep(seconds)
        run.stopping = world.now_ns > world_end_ns

    run.ports = Ports(world.clock_ns, sleep, world.spawned.append)
    dispatch(run)
    planned = [
        (f"{due.load.id}-{due.row.n}", begun_ns + round(due.t_s * 1e9))
        for due, _ in zip(schedule(run.config), offered, strict=False)
    ]
    assert offered == planned
    assert 380 < len(offered) < 460


def test_a_request_is_written_when_sent_and_its_reply_when_over(tmp_path: Path) -> None:
    with Misbehaving(*GOOD) as server:
        run = open_run(config(tmp_path, server.url, loads=[{"id": "chat", "rate": 50.0, "group": "g"}]))
        due = next(schedule(run.config))
        assert run.send(run.builder.load_request(due.load, due.row), 123) == Outcome.OK
        _, headers, body = server.requests[0]
    (request,), (reply,) = spooled(run, "request"), spooled(run, "reply")
    assert (request["id"], request["load"], request["kind"], request["grp"], request["intended_ns"]) == (
        "chat-0",
        "chat",
        "load",
        "g",
        123,
    )
    assert request["sent_ns"] <= reply["head_ns"] <= reply["first_ns"] <= reply["end_ns"]
    assert (reply["outcome"], reply["output_tokens"], reply["tokens_from"]) == ("ok", 1, "usage")
    assert headers["x-request-id"] == "chat-0"
    sent = json.loads(body)
    assert len(sent["prompt"]) == request["prompt_tokens"]
    assert sent["stream_options"] == {"include_usage": True}
    assert (run.audit.sent, run.audit.done, run.audit.in_flight) == (1, 1, 0)


def test_a_full_pool_drops_the_arrival_without_waiting(tmp_path: Path) -> None:
    with Misbehaving(hold(), *GOOD) as server:
        run = open_run(config(tmp_path, server.url, loads=[{"id": "chat", "rate": 50.0, "in_flight_max": 1}]))
        rows = schedule(run.config)
        for intended_ns in (1, 2, 3):
            due = next(rows)
            run.offer(run.builder.load_request(due.load, due.row), intended_ns)
        assert run.audit.dropped == 2
        server.released.set()
        assert run.finish(10.0) == 0
    requests = spooled(run, "request")
    assert sorted((line["intended_ns"], line["sent_ns"] is None) for line in requests) == [
        (1, False),
        (2, True),
        (3, True),
    ]
    assert [line["outcome"] for line in spooled(run, "reply")] == ["ok"]


def test_a_request_over_its_deadline_is_cut_and_is_a_timeout(tmp_path: Path) -> None:
    late_ns = [0]
    ports = replace(
        THREADS, clock_ns=lambda: time.monotonic_ns() + late_ns[0]
    )  # the socket's own timeout is a minute away
    with Misbehaving(hold()) as server:
        run = open_run(config(tmp_path, server.url, loads=[{"id": "chat", "rate": 50.0, "timeout": 60.0}]), ports)
        due = next(schedule(run.config))
        run.offer(run.builder.load_request(due.load, due.row), 1)
        assert server.reached.wait(10)
        run.sweep()
        late_ns[0] = 61_000_000_000
        run.sweep()
        assert run.finish(10.0) == 0
    assert [line["outcome"] for line in spooled(run, "reply")] == ["timeout"]


def test_what_is_open_at_the_end_of_the_drain_is_unfinished(tmp_path: Path) -> None:
    with Misbehaving(hold()) as server:
        run = open_run(config(tmp_path, server.url))
        due = next(schedule(run.config))
        run.offer(run.builder.load_request(due.load, due.row), 1)
        assert server.reached.wait(10)
        assert run.finish(0.0) == 1
    assert [line["outcome"] for line in spooled(run, "reply")] == ["unfinished"]
    assert run.audit.in_flight == 0


def test_a_malformed_request_is_one_and_says_so(tmp_path: Path) -> None:
    with Misbehaving(send(head("400 Bad Request", b'{"error":{"message":"no"}}'))) as server:
        run = open_run(config(tmp_path, server.url, loads=[{"id": "chat", "rate": 50.0, "malformed": 1.0}]))
        due = next(schedule(run.config))
        run.send(run.builder.load_request(due.load, due.row), 1)
        assert server.requests[0][2] == b"this is not JSON"
    assert spooled(run, "request")[0]["kind"] == "malformed"
    assert (spooled(run, "reply")[0]["outcome"], spooled(run, "reply")[0]["http"]) == ("http_error", 400)


def test_a_canary_goes_out_each_period_and_its_tokens_are_written(tmp_path: Path) -> None:
    world = Jumping()
    with Misbehaving(*GOOD) as server:
        run = open_run(config(tmp_path, server.url, canary={"every_s": 5.0, "prompts": 2}), world.ports())
        run.plan_clock.start(world.now_ns)
        sent: list[Any] = []

        def offer(planned: Any, intended_ns: int) -> None:
            sent.append((planned.line["prompt_sha"], intended_ns))
            run.stopping = len(sent) == 3

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "offer", offer)
            canaries(run)
        run.stopping = False
        run.send(run.builder.canary_request(0), 1)
        body = json.loads(server.requests[0][2])
    assert [intended_ns for _, intended_ns in sent] == [1_000_000_000 + 5_000_000_000 * n for n in range(3)]
    assert sent[0][0] == sent[2][0] != sent[1][0]
    assert (body["temperature"], body["logprobs"]) == (0, 2)
    assert spooled(run, "canary_reply") == [
        {"e": "canary_reply", "request": "canary-0", "tokens": None, "text": "a", "logprobs": None, "margins": None}
    ]


def test_a_closed_user_waits_for_its_reply_and_thinks_longer_after_a_failure(tmp_path: Path) -> None:
    world = Jumping()
    loads = [{"id": "users", "arrivals": "closed", "users": 2}]
    with Misbehaving(*GOOD) as server:
        run = open_run(config(tmp_path, server.url, loads), world.ports())
        run.plan_clock.start(world.now_ns)
        user = closed_users(run.config)[1]
        assert user.turn(run)
        assert user.turn(run)
    assert world.now_ns == 1_000_000_000  # no rate: no thinking
    assert [line["plan_row"] for line in spooled(run, "request")] == [1, 3]
    server.script = (send(head("429 Too Many Requests")),)
    assert user.turn(run)
    assert user.pause_s == 1.0


def test_a_breaker_that_opens_ends_the_sending(tmp_path: Path) -> None:
    run = open_run(config(tmp_path, politeness={"ramp_from_per_s": None, "requests_max": 1}))
    rows = schedule(run.config)
    for _ in range(3):
        due = next(rows)
        run.send(run.builder.load_request(due.load, due.row), 1)
    assert run.stopped_by_breaker == "limit of 1 requests reached"
    assert len(spooled(run, "request")) == 1
    run.every_second()
    assert spooled(run, "event")[0]["kind"] == "held"
    assert spooled(run, "event")[0]["value"] == 2


def test_gaps_of_two_phases_share_no_window(tmp_path: Path) -> None:
    run = open_run(config(tmp_path))
    run._gaps.add("chat", 1_000_000)
    run.phase()
    run._gaps.add("chat", 2_000_000)
    run.every_second(last=True)
    first, second = spooled(run, "hist")
    assert (first["bucket"], second["bucket"]) == (1_000_000, 2_000_000)
    assert first["t_ns"] + first["width_ns"] == second["t_ns"]


def test_a_mistake_of_ours_in_a_request_fails_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = open_run(config(tmp_path))
    run.on_reply = lambda planned, sent_ns, reply: 1 / 0  # type: ignore[assignment,return-value]
    due = next(schedule(run.config))
    run.send(run.builder.load_request(due.load, due.row), 1)
    assert isinstance(run.failure, ZeroDivisionError)
    assert run.stopping
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert run.audit.in_flight == 0


def test_a_spool_that_can_not_be_written_fails_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = open_run(config(tmp_path))

    def full(line: dict[str, object]) -> None:
        raise SpoolFull(28, "cannot write")

    run.spool.put = full  # type: ignore[method-assign]
    run.every_second()
    assert isinstance(run.failure, SpoolFull)
    assert run.stopping
    due = next(schedule(run.config))
    assert run.send(run.builder.load_request(due.load, due.row), 1) is None
    assert run.audit.sent == 0


def test_a_config_tells_everything_that_is_wrong_with_it() -> None:
    bad = {
        "config": 2,
        "url": "ftp://x",
        "model": 3,
        "seed": 1,
        "load": [{"id": "a", "rate": 1.0, "in_flight_max": 0}],
        "canary": {"evry": 1, "prompts": 0},
        "politeness": {"window": 0, "bad_share_max": 2.0},
        "api": "embeddings",
        "speling": 1,
    }
    parts = [
        "config is 2; give 1",
        "spool is missing",
        "url is 'ftp://x'",
        "model is 3; give a text",
        "load.0.in_flight_max is 0",
        "evry",
        "canary.prompts is 0; give at least 1",
        "politeness.window is 0; give at least 1",
        "politeness.bad_share_max is 2.0; give at most 1",
        "api is 'embeddings'; give 'chat' or 'completions'",
        "speling",
    ]
    with pytest.raises(ConfigProblems) as caught:
        parse_config(bad)
    assert [part for part in parts if part not in str(caught.value)] == []


@pytest.mark.parametrize("ids", [("a", "a"), ("a", "canary")])
def test_two_loads_of_one_id_and_a_load_with_the_id_of_the_canaries_are_refused(
    tmp_path: Path, ids: tuple[str, str]
) -> None:
    with pytest.raises(ConfigProblems, match=f"'{ids[1]}'"):
        config(tmp_path, loads=[{"id": one, "rate": 1.0} for one in ids])


def test_a_key_that_is_named_but_not_set_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="SEATRIAL_NO_SUCH_KEY is not set"):
        open_run(config(tmp_path, key_env="SEATRIAL_NO_SUCH_KEY"))


def test_each_request_names_its_load_and_carries_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_ALL", "secret-all")
    loads = [{"id": "a", "rate": 1.0}, {"id": "b", "rate": 1.0}]
    run = open_run(config(tmp_path, loads=loads, key_env="KEY_ALL"))
    sent = set()
    for due in itertools.islice(schedule(run.config), 20):
        headers = run.builder.load_request(due.load, due.row).request.headers
        sent.add((due.load.id, headers[LOAD_HEADER], headers["Authorization"]))
    assert sent == {("a", "a", "Bearer secret-all"), ("b", "b", "Bearer secret-all")}
    assert "secret" not in run.config.spool.read_text()
