"""Streams that end badly: cut, broken, abandoned, not read. Always one row, and the engine always told."""

import json
import socket
from typing import Any

import pytest

from faults import FaultSpec, parse_do
from runtime.core.messages import Cancel, End, Finish, Submit
from tests.runtime.server.conftest import Running, Start
from tests.runtime.server.fake import BIG, says

LONG = {"prompt": "x", "max_tokens": 99, "stream": True}


def arm(running: Running, do: str, **more: Any) -> None:
    spec = FaultSpec.from_json({"id": "f", "n": 0, "do": str(parse_do(do)), **more})
    running.served.env.faults.arm([spec])


def read_all(sock: socket.socket) -> bytes:
    """To the end of the connection, however it ends."""
    raw = b""
    while True:
        try:
            part = sock.recv(65536)
        except ConnectionResetError:
            return raw
        if not part:
            return raw
        raw += part


def events(raw: bytes) -> list[Any]:
    """The events of a chunked body, as far as it goes."""
    lines = [line for line in raw.split(b"\r\n") if line.startswith(b"data: ")]
    data = [part[6:] for line in lines for part in line.strip().split(b"\n\n")]
    return [each.decode() if each == b"[DONE]" else json.loads(each) for each in data]


def test_a_stream_in_good_order_ends_its_chunked_body(start: Start) -> None:
    """The yardstick for the cut: this is what must be missing there."""
    sock = start(says("abc")).connect(LONG)
    sock.settimeout(5)
    raw = b""
    while not raw.endswith(b"0\r\n\r\n"):
        raw += sock.recv(65536)
    assert events(raw)[-1] == "[DONE]"
    sock.close()


def test_cut_leaves_an_unterminated_body_and_no_done(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    running = start(says("abcdef"))
    arm(running, "server.stream: cut", when={"skip": 3})
    raw = read_all(running.connect(LONG))
    assert raw.startswith(b"HTTP/1.1 200 OK")
    assert b"transfer-encoding: chunked" in raw.lower()
    assert [event["choices"][0]["text"] for event in events(raw)] == ["a", "b", "c"]
    assert b"[DONE]" not in raw
    assert not raw.endswith(b"0\r\n\r\n")
    running.empty()
    row = running.rows("served")[0]
    assert (row["request"], row["outcome"], row["code"]) == ("raw", "cancelled", "stream_cut")
    assert [mark["name"] for mark in running.rows("mark")] == ["stream.cut"]
    fire = running.rows("fire")[0]
    assert (fire["point"], fire["request"], fire["hit"]) == ("server.stream", "raw", 4)
    assert not caplog.records, "cut by us, at once, and not by uvicorn when it finds the answer incomplete"
    # The engine may have been done before it heard of the cut; a cancel is posted in either case but that.
    assert all(isinstance(each, (Submit, Cancel)) for each in running.served.seen)


def test_cut_tells_the_engine_to_stop(start: Start) -> None:
    running = start(by_hand=True)
    arm(running, "server.stream: cut")
    sock = running.connect(LONG)
    running.served.mail(Submit)
    running.served.turn()
    assert events(read_all(sock)) == []
    cancel = running.served.mail(Cancel)
    assert isinstance(cancel, Cancel)
    assert cancel.why == "stream_cut"
    running.served.end(cancel.request_id, End("cancelled", 499))
    assert running.rows("served")[0]["outcome"] == "cancelled"


def test_a_cut_hits_its_scope_and_no_bystander(start: Start) -> None:
    running = start(says("abc"))
    arm(running, "server.stream: cut", scope={"load": "victims"}, when={"times": None})
    texts = {}
    for load in ("bystanders", "victims"):
        try:
            reply = running.http.post("/v1/completions", json=LONG, headers={"X-Seatrial-Load": load})
            texts[load] = reply.text
        except Exception as error:
            texts[load] = type(error).__name__
    assert texts["bystanders"].endswith("data: [DONE]\n\n")
    assert texts["victims"] == "RemoteProtocolError"


def test_phase_is_prefill_up_to_the_first_token_and_decode_after(start: Start) -> None:
    for phase, tokens in (("prefill", 0), ("decode", 1)):
        running = start(says("abc"))
        arm(running, "server.stream: cut", scope={"phase": phase})
        assert len(events(read_all(running.connect(LONG)))) == tokens


def test_a_broken_stream_says_so_in_band_and_is_done(start: Start) -> None:
    running = start(by_hand=True)
    arm(running, "server.stream: error", when={"skip": 1})
    sock = running.connect({**LONG, "max_tokens": 3})
    submit = running.served.mail(Submit)
    assert isinstance(submit, Submit)
    running.served.turn()
    running.served.turn() if len(submit.prompt) > 1 else running.served.send([])
    running.served.end(submit.request_id, End("ok", 200, finish="length"))
    raw = b""
    while not raw.endswith(b"0\r\n\r\n"):
        raw += sock.recv(65536)
    sock.close()
    first, error, done = events(raw)
    assert first["choices"][0]["text"] == "X"
    assert (error["error"]["code"], done) == ("stream_error", "[DONE]")
    assert running.rows("served")[0]["outcome"] == "inband_error"
    assert running.rows("mark")[0]["name"] == "stream.inband_error"


def test_a_delayed_stream_goes_on_when_healed_and_loses_nothing(start: Start) -> None:
    running = start(says("abc"))
    arm(running, "server.stream: delay 50s", ttl_s=60.0)
    sock = running.connect(LONG)
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += sock.recv(65536)
    assert running.http.get("/health").status_code == 200, "others are served meanwhile"
    while not running.rows("fire"):
        pass
    running.served.env.faults.heal("f", "harness")
    while not raw.endswith(b"0\r\n\r\n"):
        raw += sock.recv(65536)
    assert events(raw)[-1] == "[DONE]"
    sock.close()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tokens", [0, 2])
def test_a_client_that_leaves_is_cancelled_in_every_state(start: Start, stream: bool, tokens: int) -> None:
    running = start(says("abcdef"), by_hand=True)
    sock = running.connect({**LONG, "stream": stream})
    submit = running.served.mail(Submit)
    assert isinstance(submit, Submit)
    for _ in range(tokens):
        running.served.turn()
    sock.close()
    cancel = running.served.mail(Cancel)
    assert cancel == Cancel(submit.request_id, "client_gone")
    assert running.rows("served") == [], "the row waits for the engine's word"
    running.served.end(submit.request_id, End("cancelled", 499))
    row = running.rows("served")[0]
    assert (row["outcome"], row["code"], row["tokens_out"]) == ("cancelled", "client_gone", tokens)
    assert 'finished_reason="abort"' in running.http.get("/metrics").text


def test_a_client_that_does_not_read_is_cancelled_at_the_bound(start: Start) -> None:
    running = start(lambda _: [BIG] * 5000, by_hand=True, stream_events_max=8)
    sock = running.connect({**LONG, "max_tokens": 5000}, receive_bytes=4096)
    submit = running.served.mail(Submit)
    assert isinstance(submit, Submit)
    running.served.per_turn = 20
    turns = 0
    while running.served.mailbox.take() == [] and turns < 200:
        running.served.turn()
        running.on_loop(lambda: None)
        turns += 1
    assert turns < 200, "20 x 4000 characters a turn, and nobody was cancelled"
    running.served.end(submit.request_id, End("cancelled", 499))
    row = running.rows("served")[0]
    assert (row["outcome"], row["code"]) == ("cancelled", "client_does_not_read")
    raw = read_all(sock)
    assert not raw.endswith(b"0\r\n\r\n")
    sock.close()


def test_a_client_that_does_not_read_is_given_up_when_the_engine_is_done(start: Start) -> None:
    """The bound never comes, as no more news does; the clock must end the wait."""
    running = start(lambda _: [BIG] * 300, by_hand=True, send_max_s=0.2)
    sock = running.connect({**LONG, "max_tokens": 300}, receive_bytes=4096)
    running.served.mail(Submit)
    running.served.per_turn = 300
    running.served.turn()
    running.empty()
    assert running.rows("served")[0]["code"] == "client_does_not_read"
    sock.close()


def test_a_burst_that_the_loop_sees_at_once_is_not_the_clients_fault(start: Start) -> None:
    running = start(says("a" * 500), by_hand=True, stream_events_max=8)
    sock = running.connect({**LONG, "max_tokens": 999})
    running.served.mail(Submit)
    running.served.per_turn = 501
    running.served.turn()
    raw = b""
    while not raw.endswith(b"0\r\n\r\n"):
        raw += sock.recv(65536)
    assert len(events(raw)) == 503
    assert running.rows("served")[0]["outcome"] == "ok"
    sock.close()


def test_the_engine_is_told_to_stop_at_a_stop_string_and_has_the_last_word(start: Start) -> None:
    running = start(says("abcdef"), by_hand=True)
    sock = running.connect({**LONG, "stop": "b"})
    running.served.mail(Submit)
    running.served.turn()
    running.served.turn()
    finish = running.served.mail(Finish)
    assert isinstance(finish, Finish)
    running.served.end(finish.request_id, End("ok", 200, finish="stop"))
    raw = b""
    while not raw.endswith(b"0\r\n\r\n"):
        raw += sock.recv(65536)
    assert "".join(event["choices"][0]["text"] for event in events(raw)[:-1]) == "a"
    assert running.rows("served")[0]["tokens_out"] == 2


def test_each_request_has_one_row_joined_by_the_clients_id(start: Start) -> None:
    running = start(says("abc"))
    for n in range(20):
        body = {**LONG, "stream": bool(n % 2)}
        reply = running.http.post("/v1/completions", json=body, headers={"X-Request-Id": f"r{n}"})
        assert reply.headers["x-request-id"] == f"r{n}"
    rows = running.rows("served")
    assert [row["request"] for row in rows] == [f"r{n}" for n in range(20)]
    assert {(row["outcome"], row["finish"], row["tokens_in"], row["tokens_out"]) for row in rows} == {
        ("ok", "stop", 1, 4)
    }
    assert len({row["server_id"] for row in rows}) == 20
    assert all(row["arrive_ns"] <= row["admit_ns"] <= row["first_ns"] <= row["end_ns"] for row in rows)
