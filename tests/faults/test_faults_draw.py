import itertools

from hypothesis import given
from hypothesis import strategies as st

from faults.draw import draw, pick

names = st.lists(st.text(max_size=4) | st.integers(), max_size=4)


def test_a_draw_is_the_same_on_every_machine_and_every_day() -> None:
    assert draw(7, "oom", 0, "r1", 3) == 0.3922225237612966
    assert pick(1000, 7, "oom", 0, "r1", 3) == 392


@given(st.integers(), names)
def test_a_draw_is_in_range_and_repeats(seed: int, given_names: list[str | int]) -> None:
    assert 0 <= draw(seed, *given_names) < 1
    assert draw(seed, *given_names) == draw(seed, *given_names)


@given(st.integers(), names, st.integers(1, 1000))
def test_a_pick_is_one_of_the_options(seed: int, given_names: list[str | int], options: int) -> None:
    assert 0 <= pick(options, seed, *given_names) < options


def test_names_are_kept_apart() -> None:
    draws = [draw(1, "a/b", "c"), draw(1, "a", "b/c"), draw(1, "a/b/c"), draw(1, "1"), draw(1, 1), draw(1), draw(2)]
    assert len(set(draws)) == len(draws)


def test_draws_are_even_and_do_not_follow_the_hit_number() -> None:
    draws = [draw(3, "f", 0, "", hit) for hit in range(10_000)]
    assert all(abs(sum(low <= value < low + 0.1 for value in draws) - 1000) < 120 for low in (0.0, 0.3, 0.6, 0.9))
    rises = sum(one < two for one, two in itertools.pairwise(draws))
    assert abs(rises - 5000) < 200
