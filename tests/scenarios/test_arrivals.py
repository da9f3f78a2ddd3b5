"""Arrivals are pure functions of seed, load and number, and have the rates and shares that the scenario names."""

from collections import Counter
from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.arrivals import PREFIXES, Arrival, arrivals, forecast, turns
from scenarios.load import Load

OPEN = {
    "poisson": {"rate": "6/s"},
    "constant": {"arrivals": "constant", "rate": "6/s"},
    "ramp": {"arrivals": "ramp", "rate": "1/s..6/s", "period": "5m"},
    "burst": {"arrivals": "burst", "rate": "0/s..6/s", "period": "1m"},
    "daily": {"arrivals": "daily", "rate": "1/s..6/s", "period": "5m"},
}
EVERY_WAY = {
    "cancel": [{"share": 0.05, "at": "token 3"}, {"share": 0.02, "at": "queued"}],
    "stream": 0.5,
    "malformed": 0.1,
    "shared_prefix": 0.4,
}


# A replay of an old run stands on these: a change here is a change of what every seed means.
PINNED = [
    (0.15455, 244, 37, 6502407126756684598),
    (0.197451, 115, 62, 9187994521141884211),
    (0.518471, 244, 39, 296579290200054822),
]


def load(load_id: str = "chat", **words: Any) -> Load:
    return Load.model_validate({"id": load_id, **words})


def rows(words: dict[str, Any], seed: int = 7, window_s: tuple[float, float] = (0, 600)) -> list[Arrival]:
    return list(arrivals(load(**words), seed, window_s))


@pytest.mark.parametrize("kind", OPEN)
def test_the_same_seed_gives_the_same_rows(kind: str) -> None:
    words = OPEN[kind] | EVERY_WAY
    assert rows(words) == rows(words)
    assert rows(words, seed=8) != rows(words)


@pytest.mark.parametrize("kind", OPEN)
def test_rows_come_in_order_of_time_and_number(kind: str) -> None:
    found = rows(OPEN[kind])
    assert all(one.t_s <= other.t_s for one, other in pairwise(found))
    assert [row.n for row in found] == list(range(len(found)))


@pytest.mark.parametrize("kind", OPEN)
def test_the_number_of_rows_is_what_the_forecast_says(kind: str) -> None:
    expected = forecast(load(**OPEN[kind]), (0, 3600)).requests
    assert expected is not None
    assert len(rows(OPEN[kind], window_s=(0, 3600))) == pytest.approx(expected, abs=5 * expected**0.5)


@given(kind=st.sampled_from(sorted(OPEN)), cut_s=st.floats(0, 120), seed=st.integers(0, 99))
def test_two_windows_that_meet_give_the_rows_of_the_whole(kind: str, cut_s: float, seed: int) -> None:
    whole = rows(OPEN[kind] | EVERY_WAY, seed, (0, 120))
    assert rows(OPEN[kind] | EVERY_WAY, seed, (0, cut_s)) + rows(OPEN[kind] | EVERY_WAY, seed, (cut_s, 120)) == whole


def test_a_row_does_not_change_with_the_loads_other_words() -> None:
    plain = rows({"rate": "6/s"})
    for more in ({"cancel": [{"share": 0.5}]}, {"stream": 0.2}, {"output_tokens": 5}, {"malformed": 0.5}):
        other = rows({"rate": "6/s", **more})
        assert [(row.t_s, row.prompt_tokens, row.prompt_seed) for row in other] == [
            (row.t_s, row.prompt_tokens, row.prompt_seed) for row in plain
        ]


def test_two_loads_of_one_seed_have_nothing_to_do_with_each_other() -> None:
    one, other = (list(arrivals(load(name, rate="6/s"), 7, (0, 2000))) for name in ("a", "b"))
    assert not {row.prompt_seed for row in one} & {row.prompt_seed for row in other}
    n = min(len(one), len(other))
    xs, ys = [row.prompt_tokens for row in one[:n]], [row.prompt_tokens for row in other[:n]]
    mean_x, mean_y = sum(xs) / n, sum(ys) / n
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    spread = (sum((x - mean_x) ** 2 for x in xs) * sum((y - mean_y) ** 2 for y in ys)) ** 0.5
    assert abs(covariance / spread) < 4 / n**0.5


def test_poisson_gaps_have_the_spread_of_poisson_and_constant_ones_none() -> None:
    for kind, variation in (("poisson", 1.0), ("constant", 0.0)):
        gaps_s = [other.t_s - one.t_s for one, other in pairwise(rows(OPEN[kind], window_s=(0, 3600)))]
        mean_s = sum(gaps_s) / len(gaps_s)
        spread_s = (sum((gap_s - mean_s) ** 2 for gap_s in gaps_s) / len(gaps_s)) ** 0.5
        assert spread_s / mean_s == pytest.approx(variation, abs=0.05)


def test_shares_are_what_the_scenario_names() -> None:
    found = rows({"rate": "20/s"} | EVERY_WAY, window_s=(0, 1000))
    share = {name: count / len(found) for name, count in Counter(row.cancel_at for row in found).items()}
    assert share["token 3"] == pytest.approx(0.05 * 0.9, abs=0.01)  # what is malformed is not cancelled as well
    assert not any(row.malformed and row.cancel_at for row in found)
    assert share["queued"] == pytest.approx(0.02 * 0.9, abs=0.01)
    assert sum(row.malformed for row in found) / len(found) == pytest.approx(0.1, abs=0.01)
    prefixed = [row for row in found if row.shared_prefix]
    assert len(prefixed) / len(found) == pytest.approx(0.4, abs=0.02)
    assert len({row.shared_prefix for row in prefixed}) == PREFIXES
    uncancelled = [row for row in found if row.cancel_at is None]
    assert sum(row.stream for row in uncancelled) / len(uncancelled) == pytest.approx(0.5, abs=0.02)


def test_a_request_cancelled_at_a_token_always_streams() -> None:
    found = rows({"rate": "20/s", "stream": 0, "cancel": [{"share": 0.5, "at": "token 3"}]})
    assert all(row.stream == (row.cancel_at == "token 3") for row in found)
    assert any(row.stream for row in found)


def test_the_parts_add_up_to_the_prompt_and_shared_ones_begin_alike() -> None:
    found = rows({"rate": "20/s"} | EVERY_WAY)
    assert all(sum(part.tokens for part in row.parts) == row.prompt_tokens for row in found)
    for row in found:
        if row.shared_prefix:
            assert (row.parts[0].tokens, row.parts[1].seed) == (row.prefix_tokens, row.prompt_seed)
    seeds = {(row.shared_prefix, row.parts[0].seed) for row in found if row.shared_prefix}
    assert len(seeds) == PREFIXES


def test_rows_are_made_as_they_are_asked_for() -> None:
    for row in islice(arrivals(load(rate="1000/s"), 1), 3):  # a window without end
        assert row.n < 3


def test_users_have_sequences_of_their_own_that_share_no_number() -> None:
    closed = load(arrivals="closed", users=3, rate="0.5/s")
    by_user = [list(islice(turns(closed, 7, user), 400)) for user in range(3)]
    numbers = [turn.n for of_user in by_user for turn in of_user]
    assert len(set(numbers)) == len(numbers)
    thinking_s = [turn.think_s for of_user in by_user for turn in of_user]
    assert sum(thinking_s) / len(thinking_s) == pytest.approx(2.0, rel=0.15)
    assert by_user[1] == list(islice(turns(closed, 7, 1), 400))


def test_users_without_a_rate_do_not_pause() -> None:
    assert {turn.think_s for turn in islice(turns(load(arrivals="closed", users=2), 7, 0), 20)} == {0.0}


def test_what_a_closed_loop_will_ask_is_only_known_when_its_users_have_a_rate() -> None:
    assert forecast(load(arrivals="closed", users=3, rate="0.5/s"), (0, 100)).requests == 150
    assert forecast(load(arrivals="closed", users=3), (0, 100)).requests is None


def test_the_first_rows_of_seed_7_are_pinned() -> None:
    found = [
        (round(row.t_s, 6), row.prompt_tokens, row.output_tokens, row.prompt_seed)
        for row in islice(arrivals(load(rate="6/s"), 7), 3)
    ]
    assert found == PINNED
