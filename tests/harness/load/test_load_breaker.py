"""Politeness towards a foreign target, in a time that the test decides."""

from harness.load.breaker import UNLIMITED, Breaker, Politeness

SECOND = 1_000_000_000
FREE = Politeness(ramp_from_per_s=None)


def test_a_gate_of_our_own_target_is_always_open() -> None:
    gate = Breaker(UNLIMITED, 0)
    for number in range(1000):
        assert gate.allows(number, number)
        gate.record_reply(number, True, None, 10, 60.0)
    assert gate.stopped == ""
    assert gate.held_back == 0


def test_the_ramp_begins_at_one_a_second_and_doubles() -> None:
    gate = Breaker(Politeness(ramp_from_per_s=1.0, ramp_doubling_s=10.0), 0)
    passed = [0] * 40
    for tick in range(40 * 100):  # 100 arrivals a second
        now_ns = tick * SECOND // 100
        passed[now_ns // SECOND] += gate.allows(now_ns, 0)
    assert passed[0] <= 2
    assert sum(passed[:5]) <= 8
    assert 6 <= passed[30] <= 10
    assert gate.held_back == 4000 - sum(passed)


def test_a_limit_of_the_rate_holds_with_a_ramp_and_without() -> None:
    for ramp in (None, 1.0):
        gate = Breaker(Politeness(ramp_from_per_s=ramp, rate_max_per_s=3.0), 0)
        passed = sum(gate.allows(tick * SECOND // 100, 0) for tick in range(60 * 100))
        assert 150 <= passed <= 183


def test_retry_after_closes_the_gate_for_that_long() -> None:
    gate = Breaker(FREE, 0)
    gate.record_reply(10 * SECOND, True, None, 0, 3.0)
    assert not gate.allows(12 * SECOND, 0)
    assert gate.allows(13 * SECOND, 0)
    assert gate.stopped == ""


def test_it_stops_for_good_when_more_than_half_of_the_window_is_bad() -> None:
    gate = Breaker(FREE, 0)
    for number in range(50):
        gate.record_reply(number, number % 2 == 0, 1000, 0, None)
    assert gate.stopped == ""
    gate.record_reply(51, True, None, 0, None)
    gate.record_reply(52, True, None, 0, None)
    assert "of the last 50 replies were 5xx, 429 or lost connections" in gate.stopped
    assert not gate.allows(10**18, 0)


def test_it_stops_when_the_median_is_over_five_times_the_first_one() -> None:
    gate = Breaker(FREE, 0)
    for _ in range(50):
        gate.record_reply(0, False, 100_000_000, 0, None)
    for _ in range(25):
        gate.record_reply(0, False, 501_000_000, 0, None)
    assert gate.stopped == "median reply 501 ms, at first 100 ms"


def test_limits_of_requests_tokens_and_open_requests_hold() -> None:
    requests = Breaker(Politeness(ramp_from_per_s=None, requests_max=2), 0)
    assert [requests.allows(0, 0) for _ in range(3)] == [True, True, False]
    assert requests.stopped == "limit of 2 requests reached"
    tokens = Breaker(Politeness(ramp_from_per_s=None, tokens_max=100), 0)
    tokens.record_reply(0, False, 1, 100, None)
    assert not tokens.allows(0, 0)
    assert tokens.stopped == "limit of 100 tokens reached"
    busy = Breaker(Politeness(ramp_from_per_s=None, in_flight_max=3), 0)
    assert not busy.allows(0, 3)
    assert busy.allows(0, 2)
    assert busy.stopped == ""
