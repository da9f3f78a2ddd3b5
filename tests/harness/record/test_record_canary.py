"""Bounds between benign drift and corruption, from both sides of each."""

from pathlib import Path

import pytest

from harness.record.canary import Answer, Comparison, Reference, compare, read_reference, write_reference

TOKENS = ("a", "b", "c")
KNOWN = Answer(TOKENS, (-0.5, -0.25, -0.125), (1.0, 5e-6, 5e-5))


def moved(by: float) -> Answer:
    return Answer(TOKENS, (-0.5, -0.25 + by, -0.125), None)


STATES = {
    0.0: "equal",
    9e-6: "drift",
    -9e-6: "drift",
    4e-5: "unknown",
    9e-5: "unknown",
    1.1e-4: "corrupt",
    -1.0: "corrupt",
}


@pytest.mark.parametrize(("by", "state"), STATES.items())
def test_how_far_a_log_probability_may_move(by: float, state: str) -> None:
    assert compare(KNOWN, moved(by)) == Comparison(state, 3)


@pytest.mark.parametrize(("at", "state", "margin"), [(0, "corrupt", 1.0), (1, "drift", 5e-6), (2, "unknown", 5e-5)])
def test_a_parting_counts_by_the_references_margin_there(at: int, state: str, margin: float) -> None:
    tokens = tuple("x" if index == at else token for index, token in enumerate(TOKENS))
    assert compare(KNOWN, Answer(tokens)) == Comparison(state, at + 1, at, margin)


def test_what_follows_a_parting_is_not_compared() -> None:
    reply = Answer(("a", "x", "y"), (-0.5, -9.0, -9.0))
    assert compare(KNOWN, reply).state == "drift"


def test_damage_before_a_benign_parting_is_still_corruption() -> None:
    assert compare(KNOWN, Answer(("a", "x", "c"), (-0.4, -0.25, -0.1))).state == "corrupt"


def test_a_shorter_and_a_longer_reply_part_where_the_shorter_ends() -> None:
    assert compare(KNOWN, Answer(("a", "b"))) == Comparison("unknown", 2, 2, 5e-5)
    longer = Answer((*TOKENS, "d"))
    assert compare(KNOWN, longer) == Comparison("unknown", 3, 3, None)


def test_the_replys_margin_serves_where_the_reference_has_none() -> None:
    assert compare(Answer(("a",)), Answer(("x",), None, (2e-6,))) == Comparison("drift", 1, 0, 2e-6)


def test_a_parting_with_no_margin_known_is_unknown() -> None:
    assert compare(Answer(("a",)), Answer(("x",))).state == "unknown"


def test_texts_are_equal_or_unknown_and_never_corrupt() -> None:
    assert compare(Answer(None, text="hi"), Answer(None, text="hi")).state == "equal"
    assert compare(Answer(None, text="hi"), Answer(None, text="ho")).state == "unknown"
    assert compare(Answer(("hi",), text="hi"), Answer(None, text="hi")).state == "equal"
    assert compare(Answer(None), Answer(None)).state == "unknown"


def test_a_reference_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    reference = Reference("exact", {"s1": KNOWN, "s2": Answer(None, None, None, "text")})
    write_reference(tmp_path / "r.json", reference)
    assert read_reference(tmp_path / "r.json") == reference


BAD_FILES = [
    "",
    "[]",
    "{}",
    '{"reference":"x","answers":{"s":{"tokens":"abc"}}}',
    '{"reference":"x","answers":{"s":3}}',
]


@pytest.mark.parametrize("text", BAD_FILES)
def test_a_file_that_is_no_reference_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ValueError, match=r"r\.json is not a canary reference"):
        read_reference(tmp_path / "r.json")
