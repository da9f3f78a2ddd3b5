"""The planted bug that only real numbers show: a file of its own, since it is the one that loads torch."""

from pathlib import Path

from tests.planted.virtual.on_torch import answer


def test_a_position_off_by_one_is_seen_in_the_tokens_alone(tmp_path: Path) -> None:
    clean = answer(tmp_path, off_by_one=False)
    assert clean.corrupt == 0
    bugged = answer(tmp_path, off_by_one=True)
    assert bugged.corrupt > 0
    assert bugged.invariants_held, "the KV of the plan is right, so the tags agree"
