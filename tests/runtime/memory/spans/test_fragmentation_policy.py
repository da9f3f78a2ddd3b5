from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given

from runtime.memory.spans.fragmentation_policy import Advice, FragmentationPolicy, Sampler


@pytest.mark.parametrize(
    ("fragmentation", "advice"),
    [(0, Advice.NONE), (0.299, Advice.NONE), (0.3, Advice.MERGE), (0.699, Advice.MERGE), (0.7, Advice.DEFRAG), (1, 2)],
)
def test_a_rise_is_met_at_the_line(fragmentation: float, advice: Advice):
    assert FragmentationPolicy().advise(fragmentation) is Advice(advice)


def test_a_fall_counts_only_below_the_slack():
    bands = FragmentationPolicy()
    seen = [bands.advise(value) for value in (0.7, 0.66, 0.64, 0.26, 0.24, 0.29, 0.3)]
    assert [advice.name for advice in seen] == "DEFRAG DEFRAG MERGE MERGE NONE NONE MERGE".split()


def test_a_fall_through_two_bands_is_one_step():
    bands = FragmentationPolicy()
    bands.advise(0.9)
    assert bands.advise(0.1) is Advice.NONE


@given(st.lists(st.floats(0.6501, 0.7499), min_size=2))
def test_noise_within_the_slack_changes_the_advice_once_at_most(values: list[float]):
    bands = FragmentationPolicy()
    advice = [bands.advise(value) for value in values]
    assert sum(one is not two for one, two in pairwise(advice)) <= 1


def test_looks_back_off_to_a_bound_and_come_back_on_a_change(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("runtime.memory.spans.fragmentation_policy._SAMPLE_EVERY_MAX", 8)
    sampler = Sampler()
    looks = []
    for event in range(1, 60):
        if sampler.due():
            looks.append(event)
            sampler.sampled(changed=event == 39)
    assert looks == [1, 3, 7, 15, 23, 31, 39, 40, 42, 46, 54]
