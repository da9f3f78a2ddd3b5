"""What the plan counts of a trace is what comes, and what it calls sure comes wherever in it the trial begins."""

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assertions.arrival_counts import ArrivalCounts, seconds_until
from assertions.context import JudgeContext
from assertions.expected_counts import WARMUP_LATE_S, WARMUP_SHARE, expected_count
from assertions.judge import NeedState
from assertions.latency import chosen, latencies
from assertions.plan_view import Check
from assertions.planned_windows import planned_windows
from assertions.verdict import State
from tests.assertions.recorded import MS, PLAN, Recorded, S, phases
from tests.assertions.test_planned_windows import TRIAL_S, refusal, soak
from tests.steps import examples

stamps = st.lists(st.integers(0, 3999).map(lambda n: n / 100), max_size=80)
stretches = st.lists(st.tuples(st.floats(0, 45), st.floats(0, 20)).map(lambda each: (each[0], each[0] + each[1])))


def curve_of(times: list[float], seconds: int = 40) -> ArrivalCounts:
    counts = [0] * seconds
    for t_s in times:
        if t_s < seconds:
            counts[int(t_s)] += 1
    return ArrivalCounts(tuple(counts))


@given(stamps, stretches)
def test_sure_never_counts_what_does_not_come_and_among_never_less_than_is_sure(
    times: list[float], spans: list[tuple[float, float]]
) -> None:
    curve = curve_of(times)
    inside = sum(any(start <= t_s <= end for start, end in spans) for t_s in times)
    assert curve.sure(spans) <= inside
    assert curve.sure(spans) <= curve.among(spans) + 1e-9


@given(stamps, st.integers(0, 45), st.integers(0, 45))
def test_between_whole_seconds_a_curve_is_exact(times: list[float], one: int, other: int) -> None:
    start, end = sorted((one, other))
    came = sum(start <= t_s < end for t_s in times)
    assert curve_of(times).among([(start, end)]) == curve_of(times).sure([(start, end)]) == came


@given(stamps, stamps, st.floats(0, 45), st.integers(1, 30))
def test_when_it_says_that_so_many_have_come_they_have(
    some: list[float], others: list[float], since_s: float, count: int
) -> None:
    after_s = seconds_until([curve_of(some), curve_of(others)], 0.0, since_s, count)
    came = sum(since_s <= t_s <= since_s + after_s for t_s in some + others)
    assert came >= count or math.isinf(after_s)
    if math.isinf(after_s):  # all but those of the second in which it was asked
        assert sum(t_s >= math.ceil(since_s) for t_s in some + others) < count


def test_a_load_that_is_drawn_brings_what_the_trace_lacks() -> None:
    assert seconds_until([], 4.0, 7.0, 10) == 2.5
    assert seconds_until([], 0.0, 7.0, 10) == math.inf
    assert seconds_until([ArrivalCounts((3, 0, 0))], 2.0, 0.0, 7) == 2.0
    assert seconds_until([ArrivalCounts((3, 0, 0))], 2.0, 0.0, 11) == 4.0


def trace(counts: list[int], *faults: dict[str, Any]) -> Recorded:
    rate = sum(counts[:100]) / 100
    return soak(
        *faults,
        arrivals="trace",
        rate=None,
        rate_mean=rate,
        rate_max=float(max(counts)),
        arrivals_by_second=" ".join(map(str, counts)),
    )


def test_a_quantile_of_a_replayed_trace_is_planned_where_its_rates_alone_would_promise_nothing() -> None:
    bursts = [0, 0, 0, 0, 40] * 40
    run = trace(bursts, {"id": "f", "at_s": 10.0, "recover_s": 5.0})
    assert refusal(run, "ttft.p99 < 2s")[0] is NeedState.PLANNED
    run.plan["load"][0]["arrivals_by_second"] = None
    assert refusal(run, "ttft.p99 < 2s")[0] is NeedState.REFUSED


def test_a_trace_that_is_silent_after_the_warmup_is_refused_whatever_its_mean_rate() -> None:
    early = [40] * 20 + [0] * 180
    state, because, _ = refusal(trace(early), "ttft.p95 < 2s")
    assert state is NeedState.REFUSED
    assert "0 are sure to come" in (because or "")


def test_a_second_that_the_trial_cuts_in_two_is_not_sure_to_come() -> None:
    run = trace([0] * 80 + [100] + [0] * 119)
    for phase, planned_s in zip(run.plan["phases"], (0.0, 10.0, 60.0, 10.5), strict=True):
        phase["planned_s"] = planned_s
    seen = expected_count(run.plan_view(), Check("x"), "e2e")
    assert seen is not None
    assert (seen.mean, seen.least) == (50.0, 0)


def test_a_trace_stands_still_in_a_quiesce() -> None:
    run = trace([1] * 50 + [100] + [1] * 149)
    run.plan["phases"][2:3] = [
        {"name": name, "n": n, "planned_s": planned_s}
        for name, n, planned_s in (("trial", 0, 15.0), ("quiesce", 0, 10.0), ("trial", 1, 45.0))
    ]
    (found,) = planned_windows(trace([1] * 50 + [100] + [1] * 149, {"id": "f", "at_s": 10.0}).plan_view())
    assert found.healed_s == 41.0
    run.plan["faults"] = [{**PLAN["faults"][0], "at_s": 26.0, "scope": {}}]
    run.plan["scenario"]["fault"] = [{"id": "oom", "when": {"skip": 50}, "ttl": 60.0}]
    (found,) = planned_windows(run.plan_view())
    assert found.arm_s == 56.0  # second 46 of the load
    assert found.healed_s == 61.0  # the hundred of second 50 have come
    assert expected_count(run.plan_view(), Check("x", where="all"), "e2e").mean == 99 + 80  # type: ignore[union-attr]


def test_a_fault_waits_for_its_hit_through_a_silence_of_the_trace() -> None:
    silent = [4] * 40 + [0] * 30 + [4] * 130
    (found,) = planned_windows(trace(silent, {"id": "f", "at_s": 12.0, "recover_s": 5.0}).plan_view())
    assert found.arm_s == 42.0
    assert 70.0 <= found.healed_s <= 71.0


def test_a_longer_trial_is_a_cure_only_as_far_as_the_trace_is_known() -> None:
    ends = trace([4] * 100 + [0] * 300)
    assert "a trial of" not in (refusal(ends, "ttft.p99 < 2s")[2] or "")
    goes_on = trace([4] * 400)
    state, _, cure = refusal(goes_on, "ttft.p99 < 2s")
    assert state is NeedState.REFUSED
    longer_s = int((cure or "").split("a trial of ")[1].split("s")[0])
    goes_on.plan["phases"][2]["planned_s"] = float(longer_s)
    assert refusal(goes_on, "ttft.p99 < 2s")[0] is NeedState.PLANNED


faults_at = st.lists(st.tuples(st.floats(0, 55), st.floats(1, 12)), max_size=3)
seconds = st.lists(st.integers(0, 6), min_size=130, max_size=130)


@settings(max_examples=examples(25))
@given(seconds, faults_at, st.floats(0, 1), st.integers(0, 10_000))
def test_judges_find_at_least_what_was_promised_of_a_trace(
    counts: list[int], faults: list[tuple[float, float]], luck: float, seed: int
) -> None:
    """The warm-up ends within its slack, each fault fires at the first arrival after its arming and heals."""
    planned = [{"id": f"f{n}", "at_s": at_s, "recover_s": recover_s} for n, (at_s, recover_s) in enumerate(faults)]
    run = trace(counts, *planned)
    early_s, late_s = -WARMUP_SHARE * 20, WARMUP_SHARE * 20 + WARMUP_LATE_S
    moved_s = early_s + (late_s - early_s) * round(luck * 16) / 16
    ends = [round(end_s + moved_s, 3) for end_s in (20, 30, 90, 100, 105)]
    phases(run, *zip(("warmup", "baseline", "trial", "recovery", "drain"), ends, strict=True))  # type: ignore[arg-type]
    rng = random.Random(seed)
    times = sorted(second + rng.random() for second, n in enumerate(counts) for _ in range(n))
    for number, t_s in enumerate(times):
        run.request(f"r{number}", int(t_s * S), e2e_ns=rng.randrange(1, 900) * MS)
    for n, (at_s, _) in enumerate(faults):
        arm_s = TRIAL_S + moved_s + at_s
        first_s = next((t_s for t_s in times if t_s >= arm_s), None)
        if first_s is not None:
            heal_ns = int(min(first_s, ends[2]) * S)
            stamps_ns = {"arm_ns": int(arm_s * S), "first_ns": heal_ns, "heal_ns": heal_ns}
            run.add("fault", id=f"f{n}", n=0, fired=1, hits=1, state="healed", **stamps_ns)
    plan_view = run.plan_view()
    with run.history() as history:
        context = JudgeContext(history, plan_view)
        for where in ("outside", "all"):
            check = Check("ttft.p50 < 1s", where=where)
            promised = expected_count(plan_view, check, "ttft")
            assert promised is not None
            assert latencies(context, "ttft", chosen(context, check)).n >= promised.least


def test_a_trace_is_held_to_what_it_had_for_as_long_as_the_load_went_on() -> None:
    """Its busy end was not reached, since the warm-up was quick: nothing was withheld."""
    run = trace([4] * 95 + [100] * 35)
    run.plan["load"][0]["arrivals_planned"] = 4 * 95 + 500
    phases(run, ("warmup", 15), ("baseline", 25), ("trial", 85), ("quiesce", 95), ("recovery", 105), ("drain", 110))
    for number in range(4 * 95):
        run.request(f"r{number}", number * S // 4)
    assert run.judged("load").state is State.PASS
    for number in range(4 * 95 - 150, 4 * 95):
        run.drop("request", id=f"r{number}")
    said = run.judged("load")
    assert said.state is State.UNKNOWN
    assert "230 arrivals, 380 were planned" in said.summary


@pytest.mark.parametrize(("text", "counts"), [(None, None), ("", ()), ("2 0 1", (2, 0, 1))])
def test_a_curve_is_read_from_the_plan(text: str | None, counts: tuple[int, ...] | None) -> None:
    curve = ArrivalCounts.read(text)
    assert (curve.counts if curve is not None else None) == counts
