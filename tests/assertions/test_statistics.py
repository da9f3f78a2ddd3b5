"""Known answers, and error rates measured by simulation (seeded, so the bounds are exact for the seed)."""

import numpy as np
import pytest

from assertions import formatting, stats
from assertions.periods import PeriodValues, trend
from assertions.power import growth_rates, quantile_rates
from assertions.verdict import State


@pytest.mark.parametrize(("over", "floor"), [(0, 459), (1, 662), (2, 838), (5, 1307), (10, 2010)])
def test_p99_needs_the_floor_that_mlperf_knows(over: int, floor: int) -> None:
    assert stats.binomial_floor(0.99, over) == floor
    assert stats.over_allowed(floor, 0.99) == over
    assert stats.over_allowed(floor - 1, 0.99) == over - 1


def test_a_line_and_its_interval_match_a_textbook() -> None:
    x, y = [1.0, 2.0, 3.0, 4.0, 5.0], [2.1, 3.9, 6.2, 7.8, 10.1]
    fit = stats.fit_line(x, y, alpha=0.025)
    assert fit.slope == pytest.approx(1.99)
    assert (fit.low, fit.high) == pytest.approx((1.79994, 2.18006), abs=1e-5)


def test_theil_sen_is_not_moved_by_one_odd_block() -> None:
    y = np.arange(9.0)
    y[4] = 100.0
    assert stats.theil_sen(np.arange(9.0), y) == 1.0


def test_quantile_ranks_enclose_and_say_when_they_cannot() -> None:
    assert stats.quantile_ranks(1000, 0.99) == (982, 998)
    low, high = stats.quantile_ranks(100, 0.99)
    assert (low, high) == (96, 101)


def test_quantile_ranks_cover_the_true_quantile_as_often_as_they_say() -> None:
    rng = np.random.Generator(np.random.PCG64(1))
    ordered = np.sort(rng.random((4000, 500)), axis=1)
    low, high = stats.quantile_ranks(500, 0.9)
    missed_low = np.mean(ordered[:, low - 1] > 0.9)
    missed_high = np.mean(ordered[:, high - 1] < 0.9)
    assert missed_low <= 0.012
    assert missed_high <= 0.012


def test_share_interval_is_clopper_pearson() -> None:
    assert stats.share_interval(0, 100, alpha=0.05) == pytest.approx((0.0, 0.02951), abs=1e-4)
    assert stats.share_interval(5, 100, alpha=0.025) == pytest.approx((0.01643, 0.11284), abs=1e-4)


def test_fishers_exact_test_matches_scipy() -> None:
    from scipy.stats import fisher_exact

    for count, n, before, n_before in ((3, 10, 0, 7), (20, 60, 0, 5), (1, 30, 0, 6), (5, 9, 2, 9), (0, 5, 1, 5)):
        table = [[count, n - count], [before, n_before - before]]
        assert stats.fisher_more(count, n, before, n_before) == pytest.approx(fisher_exact(table, "greater").pvalue)


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_a_clean_8_h_series_is_called_a_leak_in_at_most_3_percent_even_at_budget_0(correlation: float) -> None:
    rates = growth_rates(hours=8, block_minutes=60, correlation=correlation, growth_sd=0, budget_sd=0, runs=500)
    assert rates.failed <= 0.03


def test_a_clean_8_h_series_passes_as_often_as_the_docs_say() -> None:
    shares = [
        growth_rates(hours=8, block_minutes=60, correlation=0.9, growth_sd=0, budget_sd=budget, runs=500).passed
        for budget in (1.0, 2.0, 4.0)
    ]
    assert shares == pytest.approx([0.16, 0.55, 0.985], abs=0.05)


def test_growth_of_twice_the_budget_is_found_in_nine_of_ten() -> None:
    rates = growth_rates(hours=8, block_minutes=60, correlation=0.9, growth_sd=8, budget_sd=4, runs=300)
    assert rates.failed >= 0.9
    assert rates.passed == 0


def test_growth_at_exactly_the_budget_rarely_fails() -> None:
    rates = growth_rates(hours=8, block_minutes=60, correlation=0.9, growth_sd=4, budget_sd=4, runs=500)
    assert rates.failed <= 0.03


def test_short_runs_in_short_blocks_are_known_to_cry_at_budget_0() -> None:
    """A known limit, kept as a test so that nobody forgets it: five-minute blocks of a correlated hour."""
    rates = growth_rates(hours=1, block_minutes=5, correlation=0.9, growth_sd=0, budget_sd=0, runs=500)
    assert 0.08 <= rates.failed <= 0.25


def test_a_ceiling_at_exactly_the_limit_errs_at_most_as_stated_when_requests_are_independent() -> None:
    rates = quantile_rates(n=2010, over_share=0.01, quantile=0.99, correlation=0.0, runs=800)
    assert rates.passed <= 0.02
    assert rates.failed <= 0.02


def test_a_ceiling_of_correlated_requests_errs_more_so_it_speaks_of_this_run() -> None:
    rates = quantile_rates(n=2010, over_share=0.01, quantile=0.99, correlation=0.9, runs=300)
    assert 0.02 < rates.failed < 0.25


def test_the_smallest_visible_growth_is_seen_in_nine_of_ten() -> None:
    rng = np.random.Generator(np.random.PCG64(2))
    hours = np.arange(10.0)
    visible = stats.smallest_visible(hours, 1.0)
    seen = sum(
        trend(PeriodValues(hours, visible * hours + rng.standard_normal(10), hours, 3600.0, 0)).against("<", 0.0)
        is State.FAIL
        for _ in range(400)
    )
    assert 0.82 <= seen / 400 <= 0.95


@pytest.mark.slow
def test_error_rates_hold_over_many_runs_while_blocks_are_long_beside_the_correlation() -> None:
    """AR .9 per minute forgets in about 10 minutes, so an hour is six of its times."""
    for hours in (8, 24):
        rates = growth_rates(hours=hours, block_minutes=60, correlation=0.9, growth_sd=0, budget_sd=0, runs=4000)
        assert rates.failed <= 0.025, (hours, rates)


@pytest.mark.slow
def test_blocks_of_two_correlation_times_are_known_to_cry_in_5_percent_at_budget_0() -> None:
    """A known limit: AR .97 forgets in half an hour, so hourly blocks still lean on each other."""
    rates = growth_rates(hours=24, block_minutes=60, correlation=0.97, growth_sd=0, budget_sd=0, runs=4000)
    assert 0.03 <= rates.failed <= 0.06
    budgeted = growth_rates(hours=24, block_minutes=60, correlation=0.97, growth_sd=0, budget_sd=2, runs=4000)
    assert budgeted.failed <= 0.002


@pytest.mark.parametrize(
    ("value", "text"), [(1010 << 20, "1,010 MiB"), (212 << 20, "212 MiB"), (1023, "1,020 B"), (0, "0 B")]
)
def test_a_size_has_three_digits_and_no_exponent(value: int, text: str) -> None:
    assert formatting.size(value) == text
