"""The planted bugs that only real tensors show: a file of its own, since it is the one that loads torch."""

from pathlib import Path

from tests.planted.virtual.on_torch import answer, swapped


def test_a_position_off_by_one_is_seen_in_the_tokens_alone(tmp_path: Path) -> None:
    clean = answer(tmp_path)
    assert clean.corrupt == 0
    bugged = answer(tmp_path, "M9")
    assert bugged.corrupt > 0
    assert bugged.breaches == 0, "the KV of the plan is right, so the tags agree"


def test_a_swap_into_a_temporary_is_seen_by_the_tags_that_travel_with_the_kv(tmp_path: Path) -> None:
    clean = swapped(tmp_path)
    assert clean.swapped > 0
    assert (clean.corrupt, clean.breaches) == (0, 0)
    bugged = swapped(tmp_path, "M13")
    assert bugged.swapped > 0
    assert bugged.breaches > 0
