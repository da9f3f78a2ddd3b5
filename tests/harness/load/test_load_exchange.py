"""One request against a server that misbehaves in one way: which outcome, which stamps, which evidence."""

import threading

import pytest
from misbehaving import (
    DONE,
    HEAD_SSE,
    HEAD_SSE_UNFRAMED,
    LAST_CHUNK,
    Misbehaving,
    Step,
    await_close,
    chunk,
    cut,
    event,
    head,
    hold,
    send,
    usage,
)

from harness.load.cancel import parse_cancel
from harness.load.chunks import StreamStats, merge_chunk
from harness.load.connection import USER_AGENT, Connection
from harness.load.exchange import Exchange, HttpRequest, Reply, retry_after_s
from harness.load.outcome import ClientEnd, Outcome


def exchange(
    server_url: str, cancel: str | None = None, connection: Connection | None = None, timeout_s: float = 10.0
) -> Exchange:
    request = HttpRequest("r1", server_url + "/v1/chat/completions", b"{}", {}, timeout_s, parse_cancel(cancel))
    return Exchange(request, connection or Connection())


def play(*script: Step, cancel: str | None = None) -> Reply:
    with Misbehaving(*script) as server:
        return exchange(server.url, cancel).run()


def test_a_whole_stream_is_ok_with_every_stamp_in_order() -> None:
    reply = play(
        send(HEAD_SSE, chunk(event("a")), chunk(event("b", "stop")), chunk(usage(7, 2)), chunk(DONE), LAST_CHUNK)
    )
    stats = reply.stats
    assert reply.outcome == Outcome.OK
    assert reply.head_ns is not None
    assert stats.first_ns is not None
    assert stats.last_ns is not None
    assert reply.head_ns <= stats.first_ns <= stats.last_ns <= reply.end_ns
    assert stats.count_tokens() == (2, "usage")
    assert (stats.prompt_tokens, stats.chunks, stats.finish) == (7, 2, "stop")
    assert reply.sample is None
    assert reply.reusable


def test_token_ids_are_counted_by_us_and_win_over_the_servers_own_word() -> None:
    stats = StreamStats()
    for chunk_of in ({"token_ids": [5, 6]}, {"token_ids": [7]}):
        merge_chunk(stats, {"choices": [{"index": 0, "text": "x", **chunk_of}]})
    merge_chunk(stats, {"choices": [], "usage": {"completion_tokens": 9}})
    assert stats.count_tokens() == (3, "ids")


def test_a_stream_that_is_cut_is_truncated() -> None:
    reply = play(send(HEAD_SSE, chunk(event("a"))), cut())
    assert reply.outcome == Outcome.TRUNCATED
    assert reply.sample == "a"
    assert not reply.reusable


def test_a_stream_that_ends_in_good_order_but_without_done_is_truncated() -> None:
    assert play(send(HEAD_SSE, chunk(event("a", "stop")), LAST_CHUNK)).outcome == Outcome.TRUNCATED


def without_done(*script: Step) -> Reply:
    """The same, of a server that is known never to say [DONE]."""
    with Misbehaving(*script) as server:
        return Exchange(HttpRequest("r1", server.url + "/", b"{}", {}, 10.0, wants_done=False), Connection()).run()


def test_a_server_that_never_says_done_ends_a_whole_stream_by_its_finish_reason_and_a_good_order() -> None:
    reply = without_done(send(HEAD_SSE, chunk(event("a", "stop")), chunk(usage(7, 1)), LAST_CHUNK))
    assert reply.outcome == Outcome.OK
    assert reply.stats.count_tokens() == (1, "usage")
    assert reply.reusable


def test_a_server_that_never_says_done_can_still_be_cut_or_give_no_reason() -> None:
    assert without_done(send(HEAD_SSE, chunk(event("a"))), cut()).outcome == Outcome.TRUNCATED
    assert without_done(send(HEAD_SSE, chunk(event("a"))), send(LAST_CHUNK)).outcome == Outcome.TRUNCATED
    assert without_done(send(HEAD_SSE, chunk(event("a", "stop"))), cut()).outcome == Outcome.TRUNCATED


def test_a_stream_without_framing_is_read_event_by_event() -> None:
    with Misbehaving(send(HEAD_SSE_UNFRAMED, event("a")), hold(), send(event("b", "stop"), DONE), cut()) as server:
        running = exchange(server.url)
        replies: list[Reply] = []
        reader = threading.Thread(target=lambda: replies.append(running.run()))
        reader.start()
        server.reached.wait(10)
        for _ in range(1000):  # the first event is heard while the second is not yet sent
            if running._stats.chunks:
                break
            threading.Event().wait(0.005)
        assert running._stats.chunks == 1
        server.released.set()
        reader.join(10)
    assert replies[0].outcome == Outcome.OK
    assert replies[0].stats.chunks == 2


def test_an_error_in_the_stream_under_200_is_no_success() -> None:
    error = b'data: {"error": {"message": "engine died", "type": "server_error", "code": 500}}\n\n'
    reply = play(send(HEAD_SSE, chunk(event("a")), chunk(error), chunk(DONE), LAST_CHUNK))
    assert reply.outcome == Outcome.INBAND_ERROR
    assert reply.error == "500: engine died"
    assert reply.http == 200


def test_a_deadline_told_in_band_is_a_timeout() -> None:
    error = b'data: {"error": {"message": "deadline", "code": 504}}\n\n'
    assert play(send(HEAD_SSE, chunk(error), LAST_CHUNK)).outcome == Outcome.TIMEOUT


def test_done_without_a_finish_reason_is_an_outcome_of_its_own() -> None:
    assert play(send(HEAD_SSE, chunk(event("a")), chunk(DONE), LAST_CHUNK)).outcome == Outcome.NO_FINISH_REASON


@pytest.mark.parametrize(
    "garbage", [b"data: {not json\n\n", b"data: \xff\xfe\n\n", b"data: [1]\n\n", b'data: {"a":1}\n\n']
)
def test_garbage_in_the_stream_is_malformed_and_kept_as_evidence(garbage: bytes) -> None:
    reply = play(send(HEAD_SSE, chunk(event("a")), chunk(garbage), chunk(event("b", "stop")), chunk(DONE), LAST_CHUNK))
    assert reply.outcome == Outcome.MALFORMED
    assert reply.sample


def test_a_character_that_is_split_over_chunks_is_whole_in_the_text() -> None:
    whole = event("Ω🚢", "stop") + DONE
    middle = whole.index("🚢".encode()) + 2
    reply = play(send(HEAD_SSE, chunk(whole[:middle]), chunk(whole[middle:]), LAST_CHUNK))
    assert reply.outcome == Outcome.OK
    assert reply.stats.sample == "Ω🚢"


def test_bytes_that_are_not_http_are_malformed() -> None:
    reply = play(send(b"\x00\x01garbage\r\n\r\n"), cut())
    assert reply.outcome == Outcome.MALFORMED
    assert reply.head_ns is None
    assert reply.http is None


def test_a_connection_closed_before_the_head_is_truncated() -> None:
    assert play(cut()).outcome == Outcome.TRUNCATED


def test_a_port_where_nobody_listens_is_an_http_error_without_status() -> None:
    reply = exchange("http://127.0.0.1:9").run()
    assert (reply.outcome, reply.http) == (Outcome.HTTP_ERROR, None)
    assert reply.error is not None
    assert "Refused" in reply.error


def test_a_redirect_is_not_followed() -> None:
    with Misbehaving(send(head("302 Found", b"", "Location: http://127.0.0.1:9/elsewhere"))) as server:
        reply = exchange(server.url).run()
        assert len(server.requests) == 1
    assert (reply.outcome, reply.http) == (Outcome.HTTP_ERROR, 302)


def test_429_is_refused_and_its_retry_after_recorded() -> None:
    body = b'{"error": {"message": "quota", "type": "rate_limit", "code": "group_tokens"}}'
    reply = play(send(head("429 Too Many Requests", body, "Retry-After: 3")))
    assert (reply.outcome, reply.http, reply.retry_after_s) == (Outcome.REFUSED, 429, 3.0)
    assert reply.error == "group_tokens: quota"
    assert reply.sample == body.decode()
    assert reply.reusable


def test_the_body_of_an_error_is_kept_up_to_4_kib() -> None:
    reply = play(send(head("500 Internal Server Error", b"x" * 100_000)))
    assert reply.outcome == Outcome.HTTP_ERROR
    assert reply.sample == "x" * 4096


def test_a_reply_that_is_one_json_body_is_ok_without_a_first_token() -> None:
    body = (
        b'{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"length"}],"usage":{"completion_tokens":2}}'
    )
    reply = play(send(head("200 OK", body)))
    assert reply.outcome == Outcome.OK
    assert reply.stats.first_ns is None
    assert reply.stats.count_tokens() == (2, "usage")


def test_a_json_body_shorter_than_its_length_is_truncated() -> None:
    short = head("200 OK", b'{"choices":[]}').replace(b"Content-Length: 14", b"Content-Length: 99")
    assert play(send(short), cut()).outcome == Outcome.TRUNCATED


def test_a_cancel_while_queued_leaves_after_sending_and_before_the_head() -> None:
    with Misbehaving(await_close()) as server:
        reply = exchange(server.url, "queued").run()
        assert server.peer_closed.wait(10)
        assert server.requests[0][2] == b"{}"  # the whole request had left
    assert reply.outcome == Outcome.CANCELLED
    assert reply.head_ns is None
    assert reply.cancel_ns is not None


@pytest.mark.parametrize("said", [(), (HEAD_SSE,), (HEAD_SSE, chunk(event("a")))], ids=["queued", "prefill", "decode"])
def test_a_cancel_after_a_time_leaves_wherever_the_server_is(said: tuple[bytes, ...]) -> None:
    with Misbehaving(*([send(*said)] if said else []), await_close()) as server:
        reply = exchange(server.url, "after 20ms").run()
        assert server.peer_closed.wait(10)
    assert reply.outcome == Outcome.CANCELLED
    assert reply.stats.chunks == max(0, len(said) - 1)
    assert reply.cancel_ns is not None and reply.cancel_ns <= reply.end_ns


def test_a_reply_that_is_whole_before_its_client_would_leave_is_ok_and_the_connection_stays() -> None:
    with Misbehaving(send(HEAD_SSE, chunk(event("a", "stop")), chunk(DONE), LAST_CHUNK)) as server:
        reply = exchange(server.url, "after 30s").run()
    assert (reply.outcome, reply.cancel_ns, reply.reusable) == (Outcome.OK, None, True)


def test_a_cancel_in_prefill_leaves_after_the_head_and_before_the_first_token() -> None:
    with Misbehaving(send(HEAD_SSE), await_close()) as server:
        reply = exchange(server.url, "prefill").run()
        assert server.peer_closed.wait(10)
    assert reply.outcome == Outcome.CANCELLED
    assert reply.head_ns is not None
    assert reply.stats.first_ns is None


def test_a_cancel_at_token_3_has_heard_three_and_closes_the_connection() -> None:
    with Misbehaving(send(HEAD_SSE, *(chunk(event(text)) for text in "abc")), await_close()) as server:
        reply = exchange(server.url, "token 3").run()
        assert server.peer_closed.wait(10)
    assert reply.outcome == Outcome.CANCELLED
    assert reply.stats.chunks == 3
    assert reply.error is None


def test_a_stream_that_ends_before_the_cancel_is_what_it_is() -> None:
    reply = play(send(HEAD_SSE, chunk(event("a", "stop")), chunk(DONE), LAST_CHUNK), cancel="token 3")
    assert reply.outcome == Outcome.OK
    assert reply.cancel_ns is None


@pytest.mark.parametrize(
    "script", [(), (send(b"HTTP/1.1 200 OK\r\nContent-Ty"),), (send(HEAD_SSE, chunk(event("a"))),)]
)
@pytest.mark.parametrize(
    ("end", "outcome"), [(ClientEnd.DEADLINE, Outcome.TIMEOUT), (ClientEnd.STOPPED, Outcome.UNFINISHED)]
)
def test_a_cut_from_outside_ends_a_hanging_request_at_any_stage(
    script: tuple[Step, ...], end: ClientEnd, outcome: Outcome
) -> None:
    with Misbehaving(*script, hold()) as server:
        running = exchange(server.url)
        replies: list[Reply] = []
        reader = threading.Thread(target=lambda: replies.append(running.run()))
        reader.start()
        assert server.reached.wait(10)
        running.cut(end)
        reader.join(10)
    assert [reply.outcome for reply in replies] == [outcome]


def test_the_socket_timeout_is_the_net_below_the_deadline() -> None:
    with Misbehaving(send(HEAD_SSE), hold()) as server:
        assert exchange(server.url, timeout_s=0.05).run().outcome == Outcome.TIMEOUT


def test_a_connection_is_used_again_only_after_a_whole_reply() -> None:
    good = send(HEAD_SSE, chunk(event("a", "stop")), chunk(DONE), LAST_CHUNK)
    with Misbehaving(good) as server:
        connection = Connection()
        assert exchange(server.url, connection=connection).run().reusable
        first = connection.sock
        assert exchange(server.url, connection=connection).run().outcome == Outcome.OK
        assert connection.sock is first


def test_a_server_that_stays_open_after_done_does_not_delay_the_end() -> None:
    with Misbehaving(send(HEAD_SSE, chunk(event("a", "stop")), chunk(DONE)), hold()) as server:
        reply = exchange(server.url).run()
    assert reply.outcome == Outcome.OK
    assert reply.stats.done_ns == reply.end_ns
    assert not reply.reusable


def test_we_say_who_we_are_and_use_no_netrc_and_no_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login other password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with Misbehaving(send(head("200 OK", b"{}"))) as server:
        exchange(server.url).run()
        _, headers, _ = server.requests[0]
    assert headers["user-agent"] == USER_AGENT
    assert "authorization" not in headers


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None), ("7", 7.0), ("-1", 0.0), ("soon", None), ("nan", None),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40.0), ("Thu, 01 Jan 1970 00:00:10 GMT", 0.0),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, lambda: 60.0) == seconds
