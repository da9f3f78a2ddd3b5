import pytest

from runtime.config import ConfigProblems, EngineConfig, read_engine_config
from runtime.scheduling.preemption import Mode


def test_every_wrong_knob_is_reported_at_once_with_what_is_allowed():
    with pytest.raises(ConfigProblems) as caught:
        read_engine_config({"kv_block": 64, "faults": 1, "seed": -1, "late_s": 0, "model": 3, "block_tokens": 0})
    text = str(caught.value)
    assert 'unknown key "kv_block"; did you mean "kv_blocks"?' in text
    assert "faults is 1; give true or false" in text
    assert "seed is -1; give at least 0" in text
    assert "late_s is 0; give more than 0" in text
    assert "block_tokens is 0; give at least 1" in text
    assert "model is 3; give a text" in text


def test_words_and_shares_are_checked_and_say_what_is_allowed():
    with pytest.raises(ConfigProblems) as caught:
        read_engine_config({"preemption": "swop", "expected_output": 1.5})
    text = str(caught.value)
    assert "preemption is 'swop'; give 'auto', 'swap', 'recompute' or 'fail'" in text
    assert "expected_output is 1.5; give at most 1" in text
    assert (
        read_engine_config({"preemption": "fail", "expected_output": 0, "swap_blocks": 0}).limits.preemption
        is Mode.FAIL
    )


def test_knobs_survive_the_way_through_json():
    knobs = EngineConfig(kv_blocks=9, exact=True)
    assert read_engine_config(knobs.model_dump(mode="json")) == knobs


def test_one_core_is_left_to_the_load_unless_told_otherwise():
    assert EngineConfig(threads=3).torch_threads == 3
    assert EngineConfig().torch_threads >= 1
