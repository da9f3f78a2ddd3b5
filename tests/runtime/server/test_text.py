"""Text of tokens: nothing broken, nothing late for longer than a character or a stop string needs."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from runtime.server.text import Detokenizer, StopStrings, Transcript


def decode(tokens: Sequence[int]) -> str:
    return bytes(tokens).decode("utf-8", "replace")


@given(st.lists(st.integers(0, 255), max_size=120))
def test_pieces_join_to_the_text_of_all_tokens(tokens: list[int]) -> None:
    detokenizer = Detokenizer(decode)
    pieces = "".join(detokenizer.push([token]) for token in tokens) + detokenizer.flush()
    assert pieces == decode(tokens)


@given(st.lists(st.sampled_from([*"a€😀".encode(), 0xFF, 0xE2, 0xF0]), min_size=60, max_size=200))
def test_pieces_join_even_when_hardly_anything_is_utf8(tokens: list[int]) -> None:
    detokenizer = Detokenizer(decode)
    pieces = "".join(detokenizer.push([token]) for token in tokens) + detokenizer.flush()
    assert pieces == decode(tokens)


def test_half_a_character_is_held_back_until_it_is_whole() -> None:
    detokenizer = Detokenizer(decode)
    assert [detokenizer.push([byte]) for byte in "€".encode()] == ["", "", "€"]


def test_a_babble_of_broken_bytes_does_not_stall_the_text() -> None:
    detokenizer = Detokenizer(decode)
    shown = [detokenizer.push([0xFF]) for _ in range(100)]
    assert shown[0] == ""
    assert set(shown[1:]) == {"\ufffd"}


def test_a_long_babble_costs_a_bounded_decode_per_token() -> None:
    longest = 0

    def watched(tokens: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(tokens))
        return decode(tokens)

    detokenizer = Detokenizer(watched)
    for _ in range(1000):
        detokenizer.push([0xFF])
    assert longest < 100


def test_a_stop_string_across_tokens_is_cut_and_its_beginning_never_shown() -> None:
    stops = StopStrings(["END"])
    assert [stops.push(piece) for piece in ("one E", "N", "D two")] == ["one ", "", ""]
    assert stops.hit == "END"
    assert stops.flush() == ""


def test_what_only_looked_like_a_stop_string_is_shown_after_all() -> None:
    stops = StopStrings(["END"])
    assert [stops.push(piece) for piece in ("E", "N", "E", "X")] == ["", "", "EN", "EX"]
    assert stops.push("EN") + stops.flush() == "EN"


@given(
    st.text("ab", max_size=30),
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=4),
    st.lists(st.integers(1, 5), min_size=30, max_size=30),
)
def test_a_stop_string_cuts_the_same_however_the_text_was_split(text: str, stops: list[str], sizes: list[int]) -> None:
    whole, split = StopStrings(stops), StopStrings(stops)
    at, shown = 0, ""
    for size in sizes:
        shown += split.push(text[at : at + size])
        at += size
    assert at >= len(text)
    assert (shown + split.flush(), split.hit) == (whole.push(text) + whole.flush(), whole.hit)


def test_a_stop_token_has_no_text() -> None:
    transcript = Transcript(decode, (), frozenset({0}))
    assert transcript.push([65, 0]) + transcript.flush() == "A"
