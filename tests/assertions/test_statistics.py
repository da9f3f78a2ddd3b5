"""Known answers, and error rates measured by simulation (seeded, so the bounds are exact for the seed)."""

import numpy as np
import pytest

from assertions import formatting, stats
from assertions.judges.drift import MODES as DRIFT_MODES
from assertions.judges.growth import visible_errors
from assertions.trend.growth import growths_of
from assertions.trend.noise import MODES as LEAK_MODES
from assertions.verdict import State
from benchmarks.drift_power import drift_rates
from benchmarks.verdict_power import growth_rates, peer_rates, quantile_rates
from benchmarks.verdict_probes import AGEINGS, Ageing, Probing
from benchmarks.verdict_series import SHAPES, blocks_of


@pytest.mark.parametrize(("over", "floor"), [(0, 459), (1, 662), (2, 838), (5, 1307), (10, 2010)])
def test_p99_needs_the_floor_that_mlperf_knows(over: int, floor: int) -> None:
    assert stats.binomial_floor(0.99, over) == floor
    assert stats.over_allowed(floor, 0.99) == over
    assert stats.over_allowed(floor - 1, 0.99) == over - 1


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


def test_the_interval_of_a_median_is_that_of_order_statistics_and_wider_where_neighbours_resemble_each_other() -> None:
    rng = np.random.default_rng(5)
    values = rng.permutation(np.arange(1000.0))
    low, high = stats.quantile_interval(values)
    assert (low, high) == pytest.approx((463, 536), abs=4)
    wide_low, wide_high = stats.quantile_interval(np.repeat(values[:250], 4))
    assert wide_high - wide_low > 1.5 * (high - low)
    assert stats.quantile_interval(values[:4]) == (-np.inf, np.inf)
    assert stats.quantile_interval(np.sort(values)) == (-np.inf, np.inf), "a drift has no median"


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_the_interval_of_a_median_misses_it_as_rarely_as_it_says(correlation: float) -> None:
    rng, missed = np.random.default_rng(6), 0
    for _ in range(300):
        shocks = rng.standard_normal(200)
        for at in range(1, 200):
            shocks[at] = correlation * shocks[at - 1] + np.sqrt(1 - correlation**2) * shocks[at]
        low, high = stats.quantile_interval(shocks)
        missed += (low > 0) + (high < 0)
    assert missed / 600 <= 0.025


def test_share_interval_is_clopper_pearson() -> None:
    assert stats.share_interval(0, 100, alpha=0.05) == pytest.approx((0.0, 0.02951), abs=1e-4)
    assert stats.share_interval(5, 100, alpha=0.025) == pytest.approx((0.01643, 0.11284), abs=1e-4)


def test_fishers_exact_test_matches_scipy() -> None:
    from scipy.stats import fisher_exact

    for count, n, before, n_before in ((3, 10, 0, 7), (20, 60, 0, 5), (1, 30, 0, 6), (5, 9, 2, 9), (0, 5, 1, 5)):
        table = [[count, n - count], [before, n_before - before]]
        assert stats.fisher_more(count, n, before, n_before) == pytest.approx(fisher_exact(table, "greater").pvalue)


RUNS, SEED = 100, 77
INNOCENT = ("warm-up, tau .2 to .3", "one step at half", "cycle of half a trial", "warm-up after a restart")
GUILTY = (
    "leak from half on",
    "leak from three quarters on",
    "leak under a falling cache",
    "leak, restart each quarter",
)


def rates(shape: str, noise: str, hours: float = 8.0) -> tuple[float, float, float]:
    return growth_rates(shape, noise, hours, RUNS, SEED)


@pytest.mark.parametrize(("noise", "most"), [("white", 0.01), ("AR .9", 0.03), ("AR .97", 0.06), ("1/f", 0.13)])
def test_growth_at_exactly_the_budget_rarely_fails(noise: str, most: float) -> None:
    assert rates("line at the budget", noise)[2] <= most


@pytest.mark.parametrize(("noise", "least"), [("white", 1.0), ("AR .9", 0.88), ("AR .97", 0.55)])
def test_growth_of_twice_the_budget_is_found(noise: str, least: float) -> None:
    passed, _, failed = rates("line, excess", noise)
    assert passed == 0
    assert failed >= least


def test_a_clean_night_passes() -> None:
    passed, _, failed = rates("clean", "AR .9")
    assert passed >= 0.8
    assert failed == 0


@pytest.mark.parametrize("shape", INNOCENT)
def test_growth_that_has_ended_or_comes_back_is_no_leak(shape: str) -> None:
    assert rates(shape, "AR .9")[2] <= 0.02


@pytest.mark.parametrize("shape", GUILTY)
def test_no_leak_passes(shape: str) -> None:
    assert rates(shape, "AR .9")[0] <= 0.05


def test_other_tests_of_growth_accuse_more_often_at_the_budget() -> None:
    ours = rates("line at the budget", "AR .97")[2]
    for peer in ("least squares", "Newey-West", "Mann-Kendall, Hamed-Rao"):
        assert peer_rates(peer, "line at the budget", "AR .97", 8.0, RUNS, SEED)[2] > ours + 0.03


@pytest.mark.slow
@pytest.mark.parametrize("hours", [2.0, 8.0, 24.0])
def test_the_tables_error_rates_hold_over_many_runs(hours: float) -> None:
    for noise, most in (("AR .9", 0.02), ("AR .97", 0.03)) if hours >= 8 else (("AR .9", 0.04),):
        assert growth_rates("line at the budget", noise, hours, 1000, SEED + 1)[2] <= most


def test_a_ceiling_at_exactly_the_limit_errs_at_most_as_stated_when_requests_are_independent() -> None:
    passed, _, failed = quantile_rates(2010, 0.01, 0.99, 0.0, 800, SEED)
    assert passed <= 0.02
    assert failed <= 0.02


def test_a_ceiling_of_correlated_requests_errs_more_so_it_speaks_of_this_run() -> None:
    assert 0.02 < quantile_rates(2010, 0.01, 0.99, 0.9, 300, SEED)[2] < 0.25


@pytest.mark.parametrize("modes", [LEAK_MODES, DRIFT_MODES])
def test_the_smallest_visible_growth_is_seen_in_nine_of_ten(modes: int) -> None:
    blocks = blocks_of(8.0, SHAPES[0], windows=False)
    white = np.random.default_rng(2).standard_normal((len(blocks.at), 300))
    error = float(np.median([found.line.error for found in growths_of(blocks, white)]))
    grown = white + (20 + visible_errors(modes)) * error * blocks.part[:, None]
    states = [found.against(20 * error)[0] for found in growths_of(blocks, grown, modes)]
    assert 0.84 <= states.count(State.FAIL) / 300 <= 0.96


@pytest.mark.parametrize(("ageing", "most", "least"), [("+20 %, the limit", 0.05, 0.0), ("+40 %", 1.0, 0.7)])
def test_drift_at_its_limit_rarely_fails_and_twice_the_limit_is_seen_at_its_price(
    ageing: str, most: float, least: float
) -> None:
    """23,040 probes at sigma .5 are the price of a P99: a limit of 20 % against a true 40 %."""
    chosen = next(each for each in AGEINGS if each.name == ageing)
    failed = drift_rates(chosen, Probing(8.0, 0.8, 0.5, "p99", wander=0.0), 60, SEED)[0][2]
    assert least <= failed <= most


@pytest.mark.parametrize("ageing", [each for each in AGEINGS if each.kind == "innocent"], ids=lambda each: each.name)
def test_no_innocent_shape_of_a_latency_fails(ageing: Ageing) -> None:
    assert drift_rates(ageing, Probing(2.0, 2.0, 0.5, "p50"), 40, SEED)[0][2] <= 0.025


@pytest.mark.parametrize(
    ("value", "text"), [(1010 << 20, "1,010 MiB"), (212 << 20, "212 MiB"), (1023, "1,020 B"), (0, "0 B")]
)
def test_a_size_has_three_digits_and_no_exponent(value: int, text: str) -> None:
    assert formatting.size(value) == text
