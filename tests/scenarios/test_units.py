"""Strings with a unit: what they mean, and what the refusal tells one to write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.units import (
    InvalidValue,
    parse_bytes,
    parse_rate,
    parse_rates,
    parse_seconds,
    parse_share,
    show_bytes,
    show_seconds,
)


@pytest.mark.parametrize(
    ("text", "seconds"), [("250ms", 0.25), ("15s", 15.0), ("1.5m", 90.0), ("8h", 28800.0), ("0s", 0.0)]
)
def test_times_come_out_in_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    ("given_value", "remedy"),
    [
        ("10 minutes", 'write "10m"'),
        ("10min", 'write "10m"'),
        (15, 'write "15s"'),
        ("15", 'write "15s"'),
        ("2d", 'write "48h"'),
        ("5 s", 'write "5s"'),
        ("-5s", "it cannot be negative"),
        ("soon", 'write a string such as "10s"'),
        (True, 'write a string such as "10s"'),
        ("1h30m", 'write a string such as "10s"'),
    ],
)
def test_a_time_without_its_unit_is_refused_with_what_to_write(given_value: object, remedy: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_seconds(given_value)
    if given_value == "1h30m":
        assert refused.value.remedy.startswith("write")
    else:
        assert refused.value.remedy == remedy


@pytest.mark.parametrize(("text", "size"), [("64KiB", 65536), ("4GiB", 4 * 2**30), ("1.5MiB", 1572864)])
def test_sizes_come_out_in_bytes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("given_value", "remedy"), [("4GB", 'write "4GiB"'), ("64k", 'write "64KiB"'), (5, 'write "5MiB"')]
)
def test_decimal_sizes_are_refused(given_value: object, remedy: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_bytes(given_value)
    assert refused.value.remedy == remedy


def test_rates_are_per_second_and_a_range_rises() -> None:
    assert parse_rate("6/s") == 6.0
    assert parse_rates("0.5/s") == 0.5
    assert parse_rates("1/s..6/s") == (1.0, 6.0)
    for wrong, remedy in (
        ("6/s..1/s", 'write "1/s..6/s"'),
        ("60/m", 'write "1/s"'),
        (6, 'write "6/s"'),
        ("1..6/s", 'write it such as "1/s..6/s"'),
        ("0/s", 'write "0.1/s", or leave the load out'),
    ):
        with pytest.raises(InvalidValue) as refused:
            parse_rates(wrong)
        assert refused.value.remedy == remedy


def test_shares_are_numbers_from_0_to_1_or_percentages() -> None:
    assert (parse_share(0), parse_share(1), parse_share("5%"), parse_share(0.25)) == (0.0, 1.0, 0.05, 0.25)
    for wrong in (1.5, -0.1, "101%", "5", True, float("nan"), None):
        with pytest.raises(InvalidValue):
            parse_share(wrong)


@given(st.integers(0, 10**6))
def test_what_we_show_reads_back(number: int) -> None:
    assert parse_seconds(show_seconds(number / 2)) == number / 2
    assert parse_bytes(show_bytes(number * 1024)) == number * 1024
