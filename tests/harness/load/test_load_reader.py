"""The reader alone: bytes in any pieces give the same reply, and nothing the other side sends makes it raise."""

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st
from misbehaving import DONE, event, usage

from harness.load.chunks import read_body
from harness.load.reader import LINE_BYTES_MAX, EventReader, LineSplitter

KEYS = ["choices", "delta", "error", "usage", "logprobs", "content", "text", "tokens", "top_logprobs"]


def hear(data: bytes, cuts: list[int] | None = None) -> EventReader:
    reader = EventReader()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts or []), len(data)]
    for number, (start, end) in enumerate(itertools.pairwise(edges)):
        reader.feed(data[start:end], number)
    return reader


@given(texts=st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=6), cuts=st.lists(st.integers(0, 4000)))
def test_pieces_make_no_difference_to_what_is_heard(texts: list[str], cuts: list[int]) -> None:
    data = b"".join(event(text) for text in texts) + event(finish="stop") + usage(3, len(texts)) + DONE
    whole, pieces = hear(data), hear(data, cuts)
    assert pieces.text_sha() == whole.text_sha()
    assert pieces.stats.sample == "".join(texts)
    assert (pieces.stats.chunks, pieces.stats.finish, pieces.stats.malformed) == (len(texts), "stop", 0)
    assert pieces.stats.count_tokens() == (len(texts), "usage")


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_no_bytes_make_the_reader_raise(pieces: list[bytes]) -> None:
    reader = EventReader()
    for number, piece in enumerate(pieces):
        reader.feed(piece, number)
        reader.feed(b"data: " + piece + b"\n\n", number)
    reader.close(99)
    read_body(b"".join(pieces), 1)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["choices", "delta", "error", "usage", "logprobs", "content", "text"]), inner
            )
        ),
        max_leaves=12,
    )
)
def test_no_json_makes_the_reader_raise(value: object) -> None:
    hear(
        b"data: "
        + json.dumps(value).encode()
        + b"\n\n"
        + b"data: "
        + json.dumps({"choices": [value]}).encode()
        + b"\n\n"
    )


@given(st.sampled_from([5, True, "x", [1], [[]], {"a": 1}, [{"a": {}}], None, 1.5]), st.sampled_from(KEYS))
def test_a_wrong_type_under_any_key_does_not_make_it_raise(value: object, key: str) -> None:
    for body in (
        {key: value, "usage": {"prompt_tokens": value, "completion_tokens": value}},
        {"choices": [{"index": 0, key: value}]},
        {"choices": [{"index": 0, "logprobs": {key: value, "tokens": ["a"]}}]},
        {"choices": [{"index": 0, "logprobs": {"content": [{key: value, "token": value, "logprob": value}]}}]},
        {"choices": [{"index": 0, "delta": {key: value}, "finish_reason": value}]},
        {"error": {key: value, "code": value, "message": value}},
    ):
        hear(b"data: " + json.dumps(body).encode() + b"\n\n")
        read_body(json.dumps(body).encode(), 1)


def test_gaps_are_between_events_with_text_and_the_first_has_none() -> None:
    gaps: list[int] = []
    reader = EventReader(gaps.append)
    for now_ns, data in ((10, event("")), (20, event("a")), (25, usage(1, 1)), (50, event("b")), (51, event("c"))):
        reader.feed(data, now_ns)
    stats = reader.stats
    assert gaps == [30, 1]
    assert (stats.first_ns, stats.last_ns, stats.gap_ns_sum, stats.gap_ns_max, stats.chunks) == (20, 51, 31, 30, 3)


def test_an_event_is_stamped_when_its_data_line_was_there() -> None:
    reader = EventReader()
    reader.feed(event("a")[:-1], 10)  # the blank line comes later
    reader.feed(b"\n", 99)
    assert reader.stats.first_ns == 10


def test_tokens_are_counted_from_logprobs_where_there_is_no_usage() -> None:
    said = {"content": [{"token": "a", "logprob": -0.5, "top_logprobs": [{"logprob": -0.5}, {"logprob": -1.5}]}]}
    body = {"choices": [{"index": 0, "delta": {"content": "ab"}, "logprobs": said}]}
    stats = hear(f"data: {json.dumps(body)}\n\n".encode()).stats
    assert stats.count_tokens() == (1, "logprobs")
    assert (stats.log.tokens, stats.log.logprobs, stats.log.margins) == (["a"], [-0.5], [1.0])


def test_completions_give_logprobs_as_parallel_lists() -> None:
    said = {"tokens": ["a", "b"], "token_logprobs": [-0.25, -1.0], "top_logprobs": [{"a": -0.25, "x": -3.25}, None]}
    body = {"choices": [{"index": 0, "text": "ab", "finish_reason": "length", "logprobs": said}]}
    stats, _ = read_body(json.dumps(body).encode(), 5)
    assert (stats.log.tokens, stats.log.logprobs, stats.log.margins) == (["a", "b"], [-0.25, -1.0], [3.0, None])


def test_tokens_are_counted_in_chunks_where_nothing_better_is_known() -> None:
    assert hear(event("a") + event("bc")).stats.count_tokens() == (2, "chunks")
    assert hear(b"").stats.count_tokens() == (None, None)


def test_reasoning_is_text_too() -> None:
    body = {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}
    assert hear(f"data: {json.dumps(body)}\n\n".encode()).stats.chunks == 1


def test_both_forms_of_an_error_object_are_understood() -> None:
    nested = hear(b'data: {"error": {"message": "m", "type": "t", "code": null}}\n\n').stats
    flat = hear(b'data: {"object": "error", "message": "m", "code": 500}\n\n').stats
    assert (nested.error, flat.error) == ("t: m", "500: m")


def test_all_three_line_ends_are_line_ends() -> None:
    for newline in (b"\n", b"\r\n", b"\r"):
        reader = hear(event("a").replace(b"\n", newline) + event("b").replace(b"\n", newline) + b"\n")
        assert reader.stats.chunks == 2, newline


def test_comments_and_other_fields_are_passed_over() -> None:
    assert hear(b": ping\n\nevent: x\nid: 3\n" + event("a")).stats.chunks == 1


def test_what_comes_after_done_does_not_count() -> None:
    assert hear(event("a") + DONE + event("b")).stats.chunks == 1


def test_a_last_event_without_its_blank_line_counts_when_the_stream_ended_in_good_order() -> None:
    reader = hear(event("a") + b"data: [DONE]")
    assert reader.stats.done_ns is None
    reader.close(7)
    assert reader.stats.done_ns == 7


def test_a_line_without_end_is_thrown_away_and_is_malformed() -> None:
    reader = EventReader()
    for _ in range(LINE_BYTES_MAX // 65_536 + 2):
        reader.feed(b"x" * 65_536, 1)
    reader.feed(b"\n" + event("a"), 2)
    assert reader.stats.malformed == 1
    assert reader.stats.chunks == 1


def test_an_overlong_line_is_never_held_whole() -> None:
    lines = LineSplitter()
    for _ in range(100):
        list(lines.feed(b"x" * 65_536))
        assert len(lines._held) <= LINE_BYTES_MAX + 65_536
