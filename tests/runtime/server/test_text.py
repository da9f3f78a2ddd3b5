"""Text of tokens: nothing broken, nothing late for longer than a character or a stop string needs."""

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from runtime.server.text import Detokenizer, StopStrings, Transcript

WORDS = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"<unk>": 256, "\u2581a": 257, "b": 258, "\u2581": 259}


def decode(tokens: Sequence[int]) -> str:
    return bytes(tokens).decode("utf-8", "replace")


def sentencepiece() -> Callable[[Sequence[int]], str]:
    """As Llama's: a character without a token of its own is spelt in bytes, and each broken byte is a U+FFFD."""
    tokenizer = Tokenizer(models.BPE(vocab=WORDS, merges=[], byte_fallback=True, unk_token="<unk>"))
    space = decoders.Replace("\u2581", " ")
    tokenizer.decoder = decoders.Sequence([space, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return lambda tokens: str(tokenizer.decode(list(tokens), skip_special_tokens=True))


spelt = st.one_of(
    st.sampled_from([[257], [258], [259, 258]]),
    st.sampled_from("\u20ac\U0001f600\u00e9").map(lambda one: [*one.encode()]),
)


@given(st.lists(spelt, max_size=30))
def test_characters_spelt_in_bytes_are_shown_whole_and_spaces_are_kept(pieces: list[list[int]]) -> None:
    tokens, spelling = [token for piece in pieces for token in piece], sentencepiece()
    detokenizer = Detokenizer(spelling)
    shown = [detokenizer.push([token]) for token in tokens]
    assert not any("\ufffd" in piece for piece in shown)
    assert "".join(shown) + detokenizer.flush() == spelling(tokens)


@given(st.lists(st.sampled_from([258, 257, 0xFF, *"a\u20ac\U0001f600".encode()]), max_size=60))
def test_broken_bytes_of_a_spelling_never_take_back_what_was_shown(tokens: list[int]) -> None:
    detokenizer = Detokenizer(sentencepiece())
    text = "".join(detokenizer.push([token]) for token in tokens) + detokenizer.flush()
    assert text.count("b") == tokens.count(258)


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
    assert set(shown[:3]) == {""}
    assert set(shown[3:]) == {"\ufffd"}


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
