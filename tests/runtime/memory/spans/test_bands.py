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
    assert FragmentationPolicy().see(fragmentation) is Advice(advice)


def test_a_fall_counts_only_below_the_slack():
    bands = FragmentationPolicy()
    seen = [bands.see(value) for value in (0.7, 0.66, 0.64, 0.26, 0.24, 0.29, 0.3)]
    assert [advice.name for advice in seen] == "DEFRAG DEFRAG MERGE MERGE NONE NONE MERGE".split()


def test_a_fall_through_two_bands_is_one_step():
    bands = FragmentationPolicy()
    bands.see(0.9)
    assert bands.see(0.1) is Advice.NONE


@given(st.lists(st.floats(0.6501, 0.7499), min_size=2))
def test_noise_within_the_slack_changes_the_advice_once_at_most(values: list[float]):
    bands = FragmentationPolicy()
    advice = [bands.see(value) for value in values]
    assert sum(one is not two for one, two in pairwise(advice)) <= 1


@pytest.mark.parametrize("lines", [(0.3, 0.33, 0.05), (0.04, 0.7, 0.05), (0.3, 1.1, 0.05), (0.7, 0.3, 0.05)])
def test_lines_that_cross_are_refused(lines: tuple[float, float, float]):
    with pytest.raises(ValueError, match="more than slack apart"):
        FragmentationPolicy(*lines)


def test_looks_back_off_to_a_bound_and_come_back_on_a_change():
    sampler = Sampler(every_max=8)
    looks = []
    for event in range(1, 60):
        if sampler.due():
            looks.append(event)
            sampler.looked(changed=event == 39)
    assert looks == [1, 3, 7, 15, 23, 31, 39, 40, 42, 46, 54]
