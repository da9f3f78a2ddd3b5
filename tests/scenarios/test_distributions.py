"""Token distributions: what is read, what a draw gives, and that the mean says what the draws do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.distributions import Constant, Lognormal, TokenDistribution, Uniform, parse_distribution
from scenarios.units import InvalidValue

DISTRIBUTIONS = st.one_of(
    st.builds(Constant, st.integers(1, 5000)),
    st.tuples(st.integers(1, 500), st.integers(0, 500)).map(lambda pair: Uniform(pair[0], pair[0] + pair[1])),
    st.tuples(st.integers(1, 500), st.floats(0.05, 3), st.integers(1, 2000)).map(
        lambda parts: Lognormal(float(parts[0]), parts[1], parts[0] + parts[2])
    ),
)


def longest(distribution: TokenDistribution) -> int:
    match distribution:
        case Constant(tokens):
            return tokens
        case Uniform(_, high):
            return high
    return distribution.max


@given(DISTRIBUTIONS)
def test_a_distribution_reads_back_as_it_is_written(distribution: TokenDistribution) -> None:
    assert parse_distribution(distribution.to_toml()) == distribution


@given(DISTRIBUTIONS, st.floats(0, 1, exclude_max=True))
def test_a_draw_stays_between_one_token_and_the_most(distribution: TokenDistribution, uniform: float) -> None:
    assert 1 <= distribution.draw(uniform) <= longest(distribution)


@given(DISTRIBUTIONS, st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True))
def test_a_larger_uniform_number_never_gives_fewer_tokens(
    distribution: TokenDistribution, one: float, other: float
) -> None:
    assert distribution.draw(min(one, other)) <= distribution.draw(max(one, other))


@pytest.mark.parametrize(
    "distribution", [Constant(7), Uniform(20, 400), Lognormal(300.0, 0.8, 1500), Lognormal(60.0, 0.6, 200)]
)
def test_the_mean_is_that_of_the_draws(distribution: TokenDistribution) -> None:
    draws = [distribution.draw((at + 0.5) / 20_000) for at in range(20_000)]
    assert sum(draws) / len(draws) == pytest.approx(distribution.mean(), rel=0.005)


def test_300_is_the_median_of_a_law_whose_end_is_far_away() -> None:
    assert Lognormal(300.0, 0.8, 10**7).draw(0.5) == 300


def test_the_end_of_a_law_gathers_no_heap() -> None:
    distribution = Lognormal(300.0, 0.8, 400)
    at_the_end = sum(distribution.draw((at + 0.5) / 10_000) == 400 for at in range(10_000))
    assert at_the_end < 50  # clamping would put 36 % there


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        (0, "whole number from 1"),
        (True, "tokens are a number"),
        ("20", "tokens are a number"),
        ([400, 20], r"write \[20, 400\]"),
        ([1, 2, 3], "tokens are a number"),
        ([1.5, 3], "whole number"),
        ({"lognormal": [300, 0.8]}, "add max"),
        ({"lognormal": [300, 0.8], "max": 200}, "max lies above the median"),
        ({"lognormal": [300, 0], "max": 2000}, "sigma above 0"),
        ({"lognormal": [True, 1], "max": 2000}, "sigma above 0"),
        ({"lognormla": [300, 1], "max": 2000}, 'did you mean "lognormal"'),
        ({"max": 2000}, "lognormal is"),
    ],
)
def test_a_law_that_cannot_be_drawn_from_is_refused(written: object, rule: str) -> None:
    with pytest.raises(InvalidValue, match=rule):
        parse_distribution(written)
