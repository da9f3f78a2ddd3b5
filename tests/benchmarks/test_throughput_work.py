"""The work of `benchmarks.throughput_cpu` is as it is called."""

import statistics
from itertools import pairwise

import pytest

from benchmarks.throughput_contenders import ROWS, batches_of, static_tokens
from benchmarks.throughput_work import OUTPUTS, PROMPTS, equal, new_tokens, ragged


def test_equal_work_has_one_shape_and_is_all_there_at_once() -> None:
    work = equal(8, 64, 128)
    assert {(len(asked.prompt), asked.output, asked.at_s) for asked in work} == {(64, 128, 0.0)}
    assert len({asked.prompt for asked in work}) == 8


def test_ragged_work_arrives_as_a_poisson_process_at_the_rate_that_was_asked_for() -> None:
    work = ragged(4000, 1000.0)
    gaps = [later.at_s - earlier.at_s for earlier, later in pairwise(work)]
    assert min(gaps) > 0
    assert new_tokens(work) / work[-1].at_s == pytest.approx(1000.0, rel=0.1)
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.1), "exponential gaps"


def test_ragged_lengths_are_lognormal_within_their_bounds_and_the_same_each_time() -> None:
    work = ragged(4000, 1000.0)
    for law, lengths in ((PROMPTS, [len(one.prompt) for one in work]), (OUTPUTS, [one.output for one in work])):
        assert statistics.median(lengths) == pytest.approx(law.median, rel=0.1)
        assert 1 <= min(lengths) < law.median / 4
        assert 4 * law.median < max(lengths) <= law.highest
    assert work == ragged(4000, 1000.0)


def test_a_static_batch_computes_every_row_to_its_longest_output() -> None:
    work = ragged(ROWS + 3, 1000.0)
    first, last = batches_of(work)
    assert (len(first), len(last)) == (ROWS, 3)
    longest = [max(asked.output for asked in batch) for batch in (first, last)]
    assert static_tokens(work) == ROWS * longest[0] + 3 * longest[1] > new_tokens(work)
