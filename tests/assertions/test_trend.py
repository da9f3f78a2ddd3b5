"""Growth that goes on is a leak; growth that has ended, comes back or only just began is told as what it is."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assertions.trend import Cut, Growth, SubBlocks, growth_of, least_width_ns, lowest, quantile, sub_blocks
from assertions.trend.noise import CORRELATIONS, fit, low_frequency
from assertions.verdict import State

HOUR = 3600 * 10**9
MIB = float(1 << 20)
Curve = Callable[[np.ndarray], np.ndarray]


def series(
    curve: Curve,
    hours: float = 8.0,
    *,
    every_s: float = 60.0,
    noise: float = 1.0,
    seed: int = 1,
    period_h: float | None = None,
    restarts_h: Sequence[float] = (),
    holes_h: Sequence[tuple[float, float]] = (),
) -> SubBlocks:
    """A sampled curve (hours -> MiB) with white noise (MiB), in bytes."""
    t_ns = np.arange(0, hours * HOUR, every_s * 1e9)
    at = t_ns / HOUR
    values = (1024 + curve(at) + noise * np.random.default_rng(seed).standard_normal(len(at))) * MIB
    kept = ~np.any([(at >= start) & (at < end) for start, end in holes_h] or [at < 0], axis=0)
    period_ns = None if period_h is None else period_h * HOUR
    trial = [(0.0, hours * HOUR)]
    cut = Cut.of(trial, period_ns, least_width_ns(t_ns))
    return sub_blocks(cut, t_ns, values, kept, [each * HOUR for each in restarts_h])


def judged(blocks: SubBlocks, mib_per_hour: float) -> tuple[State, str, Growth]:
    found = growth_of(blocks)
    return *found.against(mib_per_hour * MIB * blocks.span_ns / HOUR), found


def steps(*at_h: float, size: float) -> Curve:
    return lambda at: size * np.sum([at >= each for each in at_h], axis=0)


# -- public inputs: growth that has ended ------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [8.0, 12.0, 24.0])
def test_one_step_at_half_is_told_as_a_step_with_its_size_and_hour(hours: float) -> None:
    state, reason, found = judged(series(steps(hours / 2, size=100), hours), 2)
    assert (state, reason, found.ended.shape.kind) == (State.UNKNOWN, "ended", "step")
    assert found.ended.size / MIB == pytest.approx(100, abs=2)
    assert found.ended.shape.at == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("hours", [8.0, 12.0, 24.0])
@pytest.mark.parametrize("tau_blocks", [2.0, 4.0])
def test_a_warm_up_that_saturates_within_the_trial_is_no_leak(hours: float, tau_blocks: float) -> None:
    tau_h = tau_blocks * hours / 24
    state, reason, _ = judged(series(lambda at: 100 * (1 - np.exp(-at / tau_h)), hours), 2)
    assert (state, reason) == (State.UNKNOWN, "ended")


@pytest.mark.parametrize("hours", [8.0, 12.0, 24.0])
def test_four_stairs_and_then_flat_are_no_leak(hours: float) -> None:
    state, reason, _ = judged(series(steps(*(hours * each for each in (0.1, 0.25, 0.4, 0.55)), size=64), hours), 2)
    assert (state, reason) == (State.UNKNOWN, "ended")


@pytest.mark.parametrize("hours", [8.0, 12.0, 24.0])
def test_stairs_up_to_the_end_are_a_leak(hours: float) -> None:
    at = np.arange(1, 16) / 16
    assert judged(series(steps(*(hours * at), size=64), hours), 2)[0] is State.FAIL


@pytest.mark.parametrize("phase", np.arange(12) / 12)
def test_a_sawtooth_is_no_leak_unless_the_trial_ends_before_its_first_drop(phase: float) -> None:
    """Period 90 min, 14 to 76 MiB, one hour: a third of all phases hold no drop and are straight lines."""
    blocks = series(lambda at: 14 + 62 * ((at / 1.5 + phase) % 1), 1.0, every_s=5.0)
    state, _, _ = judged(blocks, 4)
    assert (state is State.FAIL) == (phase <= 1 / 3)


@pytest.mark.parametrize("teeth", [1.6, 2.3, 3.4, 5.5, 8.5, 13.0, 40.0])
@pytest.mark.parametrize("phase", [0.1, 0.4, 0.7, 0.95])
def test_a_cache_that_fills_and_is_flushed_is_no_leak_and_hides_none(teeth: float, phase: float) -> None:
    """Few teeth are told as a wave; a line goes through many. So the floors of teeth need no series of their own."""

    def saw(at: np.ndarray) -> np.ndarray:
        floors: np.ndarray = 62 * ((teeth * at / 8 + phase) % 1)
        return floors

    assert judged(series(saw), 0.5)[0] is not State.FAIL
    hidden, _, found = judged(series(lambda at: saw(at) + 12.5 * at), 0.5)
    assert hidden is not State.PASS
    if teeth > 8:
        assert hidden is State.FAIL
        assert found.line.size / MIB == pytest.approx(100, abs=15)


def test_flat_and_then_steep_is_a_leak_that_began_late() -> None:
    blocks = series(lambda at: 100 * np.maximum(at - 6, 0))
    state, reason, found = judged(blocks, 4)
    assert (state, reason) == (State.FAIL, "late")
    assert blocks.began_ns(found.late.shape.at) / HOUR == pytest.approx(6, abs=0.3)


# -- growth that goes on -----------------------------------------------------------------------------------------------


def test_a_line_fails_above_the_budget_and_passes_below_it() -> None:
    blocks = series(lambda at: 10 * at)
    assert judged(blocks, 8)[:2] == (State.FAIL, "line")
    assert judged(blocks, 20)[:2] == (State.PASS, "line")
    assert growth_of(blocks).line.size / MIB == pytest.approx(80, abs=1)


def test_a_leak_is_seen_through_restarts_that_give_it_all_back() -> None:
    blocks = series(lambda at: 10 * (at % 2), restarts_h=(2, 4, 6))
    assert len(blocks.starts) == 3
    assert judged(blocks, 4)[0] is State.FAIL


def test_a_warm_up_after_each_restart_is_no_leak() -> None:
    blocks = series(lambda at: 100 * (1 - np.exp(-(at % 4) / 0.6)), restarts_h=(4,))
    assert judged(blocks, 2)[0] is not State.FAIL


def test_a_leak_under_a_falling_cache_does_not_pass() -> None:
    blocks = series(lambda at: 10 * at - 80 * (1 - np.exp(-at / 2)))
    assert judged(blocks, 4)[0] is not State.PASS


def test_a_wave_that_the_load_does_not_declare_is_told_with_its_period() -> None:
    state, reason, found = judged(series(lambda at: 50 * np.sin(2 * np.pi * (at / 12 + 0.75))), 4)
    assert (state, reason) == (State.UNKNOWN, "wave")
    assert found.wave.shape.at * 8 == pytest.approx(12, rel=0.3)


@pytest.mark.parametrize("leak", [0.0, 20.0])
def test_fault_windows_at_one_phase_of_the_load_neither_hide_nor_make_growth(leak: float) -> None:
    wave = 300.0
    blocks = series(
        lambda at: leak * at + wave * np.sin(2 * np.pi * at),
        period_h=1.0,
        holes_h=[(hour + 0.1, hour + 0.45) for hour in range(4)],
    )
    assert blocks.left_out > 0
    assert judged(blocks, 10)[0] is (State.FAIL if leak else State.PASS)


def test_a_series_that_never_changes_keeps_a_budget_of_nothing_and_one_that_falls_short_fails() -> None:
    found = growth_of(series(lambda at: 0 * at, noise=0.0))
    assert found.against(0.0)[0] is State.PASS
    assert found.against(-1.0)[0] is State.FAIL


def test_one_descriptor_more_is_told_and_is_no_leak() -> None:
    t_ns = np.arange(0, 8 * HOUR, 60e9)
    blocks = sub_blocks(Cut.of([(0.0, 8.0 * HOUR)], None, 0.0), t_ns, 40.0 + (t_ns > 3.3 * HOUR), t_ns >= 0)
    state, reason = growth_of(blocks).against(0.0)
    assert (state, reason) == (State.UNKNOWN, "ended")


# -- blocks ------------------------------------------------------------------------------------------------------------


def test_the_phase_of_the_load_stands_still_in_a_quiesce() -> None:
    t_ns = np.arange(0, 9 * HOUR, 60e9)
    trial = [(0.0, 4.0 * HOUR), (4.5 * HOUR, 8.5 * HOUR)]
    blocks = sub_blocks(Cut.of(trial, float(HOUR), 0.0), t_ns, t_ns, t_ns >= 0)
    assert blocks.left_out == 0
    assert blocks.span_ns == pytest.approx(8 * HOUR)
    assert blocks.phase[:12].tolist() == list(range(12))
    assert blocks.start_ns[48] == pytest.approx(4.5 * HOUR)
    assert blocks.phase[48] == 0


@pytest.mark.parametrize("period_s", [None, 10.0, 3.0, 40.0])
@pytest.mark.parametrize("trial_s", [30.0, 79.99, 400.0])
def test_no_block_is_lost_because_samples_are_rare(trial_s: float, period_s: float | None) -> None:
    """A trial of 80 s, sampled each second, has no 96 blocks."""
    t_ns = np.arange(0.3e9, trial_s * 1e9, 1e9)
    period_ns = None if period_s is None else period_s * 1e9
    blocks = sub_blocks(Cut.of([(0.0, trial_s * 1e9)], period_ns, least_width_ns(t_ns)), t_ns, t_ns, t_ns >= 0)
    assert blocks.left_out == 0
    assert blocks.kept_ns >= (trial_s - (period_s or 4.2)) * 1e9


def test_the_lowest_value_of_a_block_is_the_level_at_rest() -> None:
    t_ns = np.arange(0, 8 * HOUR, 10e9)
    busy = np.where(np.arange(len(t_ns)) % 7 == 0, 3.0, 90.0)
    cut = Cut.of([(0.0, 8.0 * HOUR)], None, least_width_ns(t_ns))
    assert set(sub_blocks(cut, t_ns, busy, t_ns >= 0, value=lowest).values) == {3.0}


@given(values=st.lists(st.integers(0, 40), min_size=1, max_size=60), q=st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_the_quantile_of_a_block_is_that_of_numpy_whether_values_are_counted_or_repeated(
    values: list[int], q: float
) -> None:
    repeated = np.array(values, np.float64)
    different, counts = np.unique(repeated, return_counts=True)
    expected = np.quantile(repeated, q, method="median_unbiased")
    assert quantile(q)(repeated, np.ones(len(values))) == pytest.approx(expected)
    assert quantile(q)(different, counts.astype(np.float64)) == pytest.approx(expected)


# -- noise -------------------------------------------------------------------------------------------------------------


def test_the_line_of_white_noise_has_the_size_and_error_of_least_squares() -> None:
    rng = np.random.default_rng(3)
    at, values = np.arange(96.0), rng.standard_normal((96, 200))
    line = (at / 96)[:, None]
    found = fit(at, np.ones((96, 1)), line, values)
    x = np.column_stack([np.ones(96), line])
    plain = np.linalg.lstsq(x, values, rcond=None)[0][1]
    uncorrelated = found.correlation[:, 0] == CORRELATIONS[0]
    assert uncorrelated.mean() > 0.4
    np.testing.assert_allclose(found.size[uncorrelated, 0], plain[uncorrelated])


def test_both_lines_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(4)
    at, runs = np.arange(96.0), 1000
    shocks = rng.standard_normal((96, runs))
    values = np.empty_like(shocks)
    values[0] = shocks[0]
    for step in range(1, 96):
        values[step] = 0.5 * values[step - 1] + np.sqrt(0.75) * shocks[step]
    found = fit(at, np.ones((96, 1)), (at / 96)[:, None], values)
    above = found.size[:, 0] / found.error[:, 0] > 2.33
    slow, error, free = low_frequency(at, np.zeros((96, 0)), at / 96, values)
    assert free == 6
    assert 0.002 < above.mean() < 0.03
    assert 0.002 < (slow / error > 3.143).mean() < 0.025  # t with 6 degrees of freedom, 1 %
