"""Changing rates: the inverse is one, the rate is what is written, and the whole cycle has its count."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.profiles import BURST_SHARE, Burst, Daily, Flat, Profile, Ramp

_HIGH = st.floats(0.1, 100)
_SHARE = st.one_of(st.just(0.0), st.floats(0.01, 0.99))
_PERIOD_S = st.floats(1, 10_000)
CHANGING = st.builds(
    lambda kind, high, share, period_s: kind(high * share, high, period_s),
    st.sampled_from([Ramp, Burst, Daily]),
    _HIGH,
    _SHARE,
    _PERIOD_S,
)
PROFILES = st.one_of(st.builds(Flat, _HIGH), CHANGING)


@given(PROFILES, st.floats(0, 1e6))
def test_the_time_of_a_count_is_when_that_count_is_expected(profile: Profile, expected: float) -> None:
    assert profile.expected_by(profile.time_of(expected)) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(PROFILES, st.floats(0, 1e5), st.floats(0, 1e5))
def test_later_counts_come_later(profile: Profile, one: float, other: float) -> None:
    assert profile.time_of(min(one, other)) <= profile.time_of(max(one, other))


@given(PROFILES, st.floats(0, 1e5), st.floats(0.001, 10))
def test_no_stretch_is_faster_than_the_highest_rate(profile: Profile, t_s: float, span_s: float) -> None:
    grown = profile.expected_by(t_s + span_s) - profile.expected_by(t_s)
    assert -1e-6 <= grown <= profile.rate_max * span_s * (1 + 1e-6) + 1e-6


def test_a_ramp_rises_in_a_line_and_then_stays() -> None:
    ramp = Ramp(1.0, 5.0, 100.0)
    assert ramp.expected_by(50.0) == pytest.approx(1 * 50 + 4 * 50**2 / 200)
    assert ramp.expected_by(200.0) - ramp.expected_by(100.0) == pytest.approx(500)


def test_a_burst_is_the_last_fifth_of_each_period() -> None:
    burst = Burst(1.0, 6.0, 100.0)
    assert burst.expected_by(100 * (1 - BURST_SHARE)) == pytest.approx(80)
    assert burst.expected_by(100.0) - burst.expected_by(80.0) == pytest.approx(120)
    assert burst.expected_by(180.0) - burst.expected_by(100.0) == pytest.approx(80)


def test_a_day_starts_at_its_low_and_has_its_high_at_noon() -> None:
    day = Daily(1.0, 6.0, 2400.0)
    assert day.expected_by(1.0) == pytest.approx(1.0, abs=1e-4)
    assert day.expected_by(1201.0) - day.expected_by(1200.0) == pytest.approx(6.0, abs=1e-4)
    assert day.expected_by(2400.0) == pytest.approx(3.5 * 2400)


def test_a_burst_over_silence_never_divides_by_its_low() -> None:
    assert Burst(0.0, 5.0, 10.0).time_of(0.0) == 8.0
    assert math.isfinite(Burst(0.0, 5.0, 10.0).time_of(12345.6))
