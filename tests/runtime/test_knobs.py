import pytest

from runtime.knobs import KnobProblems, Knobs, limits_of, read_knobs
from runtime.scheduling.preemption import Mode


def test_every_wrong_knob_is_reported_at_once_with_what_is_allowed():
    with pytest.raises(KnobProblems) as caught:
        read_knobs({"kv_block": 64, "faults": 1, "seed": -1, "late_s": 0, "model": 3, "block_tokens": 0})
    text = str(caught.value)
    assert 'no knob "kv_block"; did you mean "kv_blocks"?' in text
    assert "faults = 1: give true or false" in text
    assert "seed = -1: give a whole number of at least 0" in text
    assert "late_s = 0: give a number of seconds above 0" in text
    assert "block_tokens = 0: give a whole number of at least 1" in text
    assert "model = 3: give a string" in text


def test_words_and_shares_are_checked_and_say_what_is_allowed():
    with pytest.raises(KnobProblems) as caught:
        read_knobs({"preemption": "swop", "expected_output": 1.5})
    text = str(caught.value)
    assert "preemption = 'swop': give auto, swap, recompute or fail" in text
    assert "expected_output = 1.5: give a share from 0 to 1" in text
    assert limits_of(read_knobs({"preemption": "fail", "expected_output": 0, "swap_blocks": 0})).preemption is Mode.FAIL


def test_knobs_survive_the_way_through_json():
    knobs = Knobs(kv_blocks=9, exact=True)
    assert read_knobs(knobs.to_json()) == knobs


def test_one_core_is_left_to_the_load_unless_told_otherwise():
    assert Knobs(threads=3).torch_threads == 3
    assert Knobs().torch_threads >= 1
