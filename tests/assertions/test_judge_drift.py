"""drift: a probe that ages FAILs with its owner; what rose once, warms up or follows the load is told as that."""

import math
import random
from collections.abc import Callable

import pytest

from assertions.verdict import Judged, Level, State
from tests.assertions.recorded import MS, Recorded, S, long_run

TRIAL_S = 720
THAT = "drift.ttft.p90 < 20%"
Ageing = Callable[[float], float]


def probed(ageing: Ageing = lambda part: 1.0, rate: float = 2.0, spread: float = 0.05) -> Recorded:
    """A probe of 20 ms whose time to first token is `ageing(part of the trial)` times as long."""
    run, rng = long_run(), random.Random("probe")
    for number in range(int((TRIAL_S + 20) * rate)):
        at_s = number / rate
        slower = ageing(min(1.0, max(0.0, at_s - 20) / TRIAL_S)) * rng.uniform(1 - spread, 1 + spread)
        first_ns = int(20 * MS * slower)
        probe(run, f"p{number}", int(at_s * S), ttft_ns=first_ns, e2e_ns=first_ns + int(150 * MS * slower), tokens=16)
    return run


def probe(run: Recorded, name: str, at_ns: int, **more: int) -> None:
    run.request(name, at_ns, load="probe", kind="probe", group=None, **more)  # type: ignore[arg-type]


def loaded(run: Recorded, rate: Callable[[float], float]) -> Recorded:
    """An open load beside the probe, with this rate at each part of the trial."""
    run.plan["scenario"]["load"].append({"id": "chat", "probe": False})
    run.plan["load"].append({"id": "chat", "rate_mean": 10.0, "rate_max": 20.0, "period_s": None})
    rng, at_s = random.Random("load"), 20.0
    while at_s < TRIAL_S + 20:
        run.request(f"c{len(run.tables['request'])}", int(at_s * S))
        at_s += rng.expovariate(rate((at_s - 20) / TRIAL_S))
    return run


def checked(run: Recorded, that: str = THAT) -> Judged:
    run.plan["scenario"]["check"] = [{"that": that, "load": "probe"}]
    return next(judged for judged in run.verdict().judges if judged.name.startswith(that))


def test_a_planted_drift_fails_with_its_size_its_quarters_and_what_can_be_seen() -> None:
    judged = checked(probed(lambda part: 1 + 0.5 * part))
    assert judged.state is State.FAIL
    assert judged.figures["share"] == pytest.approx(0.5, abs=0.05)
    assert judged.figures["last_quarter"] / judged.figures["first_quarter"] == pytest.approx(1.44 / 1.06, abs=0.05)
    assert "(first quarter 22" in judged.summary
    assert "in this run" in (judged.limit or "")
    assert "above the limit in 1,440 probes over 12m" in (judged.smallest_visible or "")
    assert judged.since_ns is not None


@pytest.mark.parametrize(("stamp", "owner"), [("arrive_ns", "between client and server"), ("admit_ns", "server, queue"),
                                              ("first_ns", "server, prefill")])  # fmt: skip
def test_the_part_of_the_way_that_grew_is_named(stamp: str, owner: str) -> None:
    run = probed(lambda part: 1 + 0.5 * part)
    replies = {row["request"]: row for row in run.tables["reply"]}
    for row in run.tables["served"]:
        steps, grown_ns = ("arrive_ns", "admit_ns", "first_ns"), replies[row["request"]]["first_ns"] - 1 * MS
        begin_ns = row["arrive_ns"]
        for at, name in enumerate(steps):
            row[name] = grown_ns if at >= steps.index(stamp) else begin_ns
    assert (checked(run).owner or "").startswith(owner)


@pytest.mark.parametrize("metric", ["ttft", "e2e", "tpot"])
@pytest.mark.parametrize("stat", ["p50", "p95", "mean"])
def test_every_latency_and_statistic_of_a_probe_is_judged_and_a_steady_one_passes(metric: str, stat: str) -> None:
    that = f"drift.{metric}.{stat} < 20%"
    assert checked(probed(), that).state is State.PASS
    assert checked(probed(lambda part: 1 + 0.6 * part), that).state is State.FAIL


@pytest.mark.parametrize(
    ("ageing", "told", "share"),
    [
        (lambda part: 1.5 if part > 0.5 else 1.0, "rose once: +50", 0.5),
        (lambda part: 1 + 0.5 * (1 - math.exp(-part / 0.1)), "levels off: +", 0.5),
        (lambda part: 1 + 0.3 * math.sin(2 * math.pi * (part / 0.45)), "comes and goes with a period of", None),
        (lambda part: 1 + 0.3 * min(part, 0.4) / 0.4, "grew and levelled off: +", 0.3),
    ],
)
def test_a_rise_that_ended_is_told_with_its_own_size_and_is_no_drift(
    ageing: Ageing, told: str, share: float | None
) -> None:
    judged = checked(probed(ageing))
    assert judged.state is State.UNKNOWN
    assert told in judged.summary
    assert share is None or judged.figures["share"] == pytest.approx(share, abs=0.06)


def test_a_drift_that_began_late_is_judged_by_what_it_came_to() -> None:
    fails = checked(probed(lambda part: 1 + 2 * max(0.0, part - 0.7)))
    assert fails.state is State.FAIL
    assert fails.since_ns == pytest.approx((20 + 0.7 * TRIAL_S) * S, abs=30 * S)
    assert fails.figures["share"] == pytest.approx(0.6, abs=0.08)
    small = checked(probed(lambda part: 1 + 0.5 * max(0.0, part - 0.7)))
    assert small.state is State.UNKNOWN, "+15 % is within the limit, but goes on at a rate beyond it"
    assert "growth began at 00:08" in small.summary


@pytest.mark.parametrize("sign", [1, -1])
def test_latency_under_a_load_with_a_trend_is_not_judged(sign: int) -> None:
    def rate(part: float) -> float:
        return 10 * (1 + sign * (part - 0.5))

    for ageing in (lambda part: 1.0, lambda part: rate(part) / rate(0.0)):
        judged = checked(loaded(probed(ageing), rate))
        assert judged.state is State.UNKNOWN
        assert "the offered load changed by" in (judged.because or "")
        assert judged.figures["load_change"] == pytest.approx(sign, abs=0.1)


def test_a_load_that_fluctuates_is_taken_out_of_the_line() -> None:
    def rate(part: float) -> float:
        return 30 * (1.5 if int(part * 20) in (3, 8, 11, 14, 16, 17, 19) else 0.8)

    assert checked(loaded(probed(lambda part: rate(part) / 30), rate)).state is State.PASS
    aged = checked(loaded(probed(lambda part: rate(part) / 30 * (1 + 0.6 * part)), rate))
    assert aged.state is State.FAIL
    assert aged.figures["share"] == pytest.approx(0.6, abs=0.1)


def test_a_server_that_refuses_its_slow_probes_does_not_pass() -> None:
    run = probed()
    late = [row for row in run.tables["reply"] if row["end_ns"] > 400 * S]
    for row in late[::20]:
        row |= {"outcome": "http_error", "http": 500, "first_ns": None}
    judged = checked(run)
    assert judged.state is State.UNKNOWN
    assert "unanswered: 0 of 720 in the first half" in judged.summary
    assert "more probes of the last half got no answer" in (judged.because or "")


def test_a_quantile_with_too_few_probes_is_not_judged() -> None:
    judged = checked(probed(rate=0.5), "drift.ttft.p99 < 20%")
    assert judged.state is State.UNKNOWN
    assert "24 are needed of 100 probes each" in judged.summary


def test_a_late_generator_voids_it() -> None:
    run = probed(lambda part: 1 + 0.5 * part)
    for row in run.tables["request"]:
        row["sent_ns"] = row["intended_ns"] + 50 * MS
    assert checked(run).state is State.UNKNOWN


def test_gaps_between_tokens_are_judged_from_their_histogram() -> None:
    for growth, state in ((0.0, State.PASS), (0.6, State.FAIL)):
        run = probed()
        for window in range(74):
            gap_ns = int(10 * MS * (1 + growth * max(0.0, window * 10 - 20) / TRIAL_S))
            for bucket in range(5):
                run.add("hist", t_ns=window * 10 * S, width_ns=10 * S, load="probe", metric="itl",
                        bucket=gap_ns + bucket * MS // 10, n=60)  # fmt: skip
        assert checked(run, "drift.itl.p95 < 20%").state is state


def test_a_probe_is_watched_without_a_check() -> None:
    watched = next(each for each in probed().verdict().judges if each.name == "drift.ttft.p50 [probe]")
    assert (watched.state, watched.level) == (State.PASS, Level.OBSERVE)
