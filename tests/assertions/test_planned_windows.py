"""What is foreseen of a run is what its judges will find: windows as wide as theirs, never more requests than come."""

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assertions.context import JudgeContext
from assertions.expected_counts import expected_count
from assertions.intervals import length, merged, within, without
from assertions.judge import NeedState, needs
from assertions.latency import chosen, latencies
from assertions.plan_view import Check
from assertions.planned_windows import planned_windows, selected_intervals
from tests.assertions.recorded import Recorded, S, phases
from tests.steps import examples

PHASES = (("warmup", 20.0), ("baseline", 10.0), ("trial", 60.0), ("recovery", 10.0))
TRIAL_S = 30.0  # when the trial begins


def soak(*faults: dict[str, Any], **load: Any) -> Recorded:
    """A plan: 4/s of chat over two minutes with these faults, {"id", "at_s", "do", "recover_s", "when"}."""
    run = Recorded()
    run.plan["phases"] = [{"name": name, "n": 0, "planned_s": planned_s} for name, planned_s in PHASES]
    run.plan["scenario"]["check"] = []
    run.plan["scenario"]["load"] = [{"id": "chat", "group": "chat", "probe": False, "arrivals": "poisson"} | load]
    run.plan["load"] = [
        {"id": "chat", "rate_mean": 4.0, "rate_max": 4.0, "arrivals_planned": 400, "period_s": None}
        | {key: load[key] for key in ("rate_mean", "rate_max", "arrivals_by_second") if key in load}
    ]
    pattern = run.plan["faults"][0]
    run.plan["faults"], run.plan["scenario"]["fault"] = [], []
    for fault in faults:
        do = fault.get("do", "kv.take: oom")
        expect = pattern["expect"] | {key: fault[key] for key in ("recover_s", "recover_completed") if key in fault}
        run.plan["faults"].append(
            pattern
            | {"id": fault["id"], "n": fault.get("n", 0), "at_s": fault.get("at_s"), "after": fault.get("after")}
            | {"do": do, "action": do.split(": ")[1].split(" ")[0], "expect": expect, "scope": {}}
            | {"symptom": fault.get("symptom", "mark:kv.out_of_blocks")}
        )
        run.plan["scenario"]["fault"].append(
            {"id": fault["id"], "when": fault.get("when", {}), "ttl": fault.get("ttl", 60.0)}
            | {"persist": fault.get("persist", False)}
        )
    return run


def refusal(run: Recorded, that: str, **more: Any) -> tuple[NeedState, str | None, str | None]:
    run.plan["scenario"]["check"] = [{"that": that, **more}]
    said = next(each for each in needs(run.plan_view()) if each.judge.startswith(that))
    return said.state, said.because, said.cure


@pytest.mark.parametrize(
    ("fault", "window"),
    [
        ({}, (9.0, 15.25)),  # a second of requests in flight, one hit at 4/s, recover
        ({"do": "device.launch: hang 4s"}, (9.0, 19.25)),
        ({"do": "device.launch: hang 4s", "when": {"for": 2.0}}, (9.0, 17.25)),
        ({"do": "device.launch: hang 400ms", "when": {"times": 3}}, (9.0, 16.95)),
        ({"do": "device.launch: hang", "ttl": 20.0}, (9.0, 35.25)),
        ({"do": "device.launch: hang"}, (9.0, 65.0)),  # the harness heals it at the end of the trial
        ({"do": "device.complete: drop", "symptom": "mark:device.late", "ttl": 20.0}, (9.0, 35.25)),
        ({"when": {"skip": 7, "times": 5, "interval": 2}}, (9.0, 19.0)),
        ({"when": {"times": 1000, "probability": 0.05, "for": 10.0}}, (9.0, 30.0)),
        ({"persist": True, "ttl": 20.0}, (9.0, 35.25)),  # whatever its times are, until its net
        ({"persist": True, "when": {"for": 2.0}}, (9.0, 17.25)),
        ({"recover_s": None}, (9.0, 40.25)),
        ({"recover_s": None, "recover_completed": 40}, (9.0, 20.25)),
    ],
)
def test_a_window_lasts_from_arming_until_it_has_surely_recovered(
    fault: dict[str, Any], window: tuple[float, float]
) -> None:
    (found,) = planned_windows(soak({"id": "f", "at_s": 10.0, "recover_s": 5.0} | fault).plan_view())
    assert found.most == pytest.approx((window[0] + TRIAL_S, window[1] + TRIAL_S))


def test_a_fault_that_persists_may_last_once_more_for_each_restart_that_is_planned() -> None:
    stays = {"id": "stays", "at_s": 10.0, "recover_s": 5.0, "persist": True, "when": {"for": 2.0}}
    kill = {"id": "kill", "at_s": 11.0, "recover_s": 5.0, "do": "device.launch: kill", "when": {"times": 2}}
    found = {each.fault: each for each in planned_windows(soak(stays, kill).plan_view())}
    assert found["stays"].healed_s == pytest.approx(TRIAL_S + 10.0 + 3 * 2.25)
    assert found["stays"].heals_s == TRIAL_S + 12.0


def test_a_fault_that_follows_another_is_placed_after_it() -> None:
    run = soak({"id": "b", "after": "a.healed", "recover_s": 5.0}, {"id": "a", "at_s": 10.0, "do": "x.y: hang 4s"})
    found = {each.fault: each for each in planned_windows(run.plan_view())}
    assert found["b"].arm_s == found["a"].heals_s == TRIAL_S + 14.0
    assert found["b"].healed_s > found["a"].healed_s


def test_faults_that_will_never_be_armed_open_no_window() -> None:
    run = soak({"id": "late", "at_s": 60.0}, {"id": "a", "after": "b.fired"}, {"id": "b", "after": "a.fired"})
    assert planned_windows(run.plan_view()) == []


def test_a_check_that_windows_leave_too_little_is_refused_and_each_cure_cures() -> None:
    faults = [{"id": f"f{n}", "at_s": 12.0 * n, "recover_s": 10.0} for n in range(5)]
    state, because, cure = refusal(soak(*faults), "ttft.p95 < 2s")
    assert state is NeedState.REFUSED
    assert because == "p95 needs 90 requests, 95 are planned outside fault windows and 72 are sure to come"
    assert cure == 'a trial of 65s or recover = "9s" for its faults or where = "all" or p90'
    assert refusal(soak(*faults), "ttft.p95 < 2s", where="all")[0] is NeedState.PLANNED
    assert refusal(soak(*faults), "ttft.p90 < 2s")[0] is NeedState.PLANNED
    shorter = [fault | {"recover_s": 9.0} for fault in faults]
    assert refusal(soak(*shorter), "ttft.p95 < 2s")[0] is NeedState.PLANNED
    longer = soak(*faults)
    longer.plan["phases"][2]["planned_s"] = 65.0
    assert refusal(longer, "ttft.p95 < 2s")[0] is NeedState.PLANNED
    longer.plan["phases"][2]["planned_s"] = 64.0
    assert refusal(longer, "ttft.p95 < 2s")[0] is NeedState.REFUSED


def test_a_longer_trial_is_no_cure_where_the_fault_comes_again_and_again() -> None:
    often = [{"id": "f", "n": n, "at_s": 12.0 * n, "recover_s": 15.0} for n in range(5)]
    _, _, cure = refusal(soak(*often), "ttft.p95 < 2s")
    assert cure == 'recover = "9s" for its faults or where = "all" or p90'


def test_a_check_inside_a_fault_counts_only_the_time_that_is_sure() -> None:
    run = soak({"id": "hang", "at_s": 10.0, "do": "device.launch: hang 4s", "recover_s": 5.0})
    state, because, cure = refusal(run, "e2e.p90 < 9s", where="hang")
    assert (state, because) == (
        NeedState.REFUSED,
        "p90 needs 44 requests, 36 are planned in the windows of hang and 22 are sure to come",
    )
    assert 'where = "all"' in (cure or "")
    assert refusal(run, "e2e.p50 < 9s", where="hang")[0] is NeedState.PLANNED


def test_shares_and_rates_need_something_to_count_outside_of_a_break_that_lasts() -> None:
    run = soak({"id": "f", "at_s": 0.0, "do": "device.launch: hang", "recover_s": 60.0})
    assert refusal(run, "throughput.tokens > 1/s")[0] is NeedState.REFUSED
    assert refusal(run, "errors.outside < 1%")[0] is NeedState.PLANNED  # the baseline has some
    run.plan["phases"][1]["planned_s"] = 0.0
    assert refusal(run, "errors.outside < 1%", where="all")[0] is NeedState.REFUSED
    assert refusal(run, "errors < 1%", where="all")[0] is NeedState.PLANNED


def test_requests_that_the_plan_cancels_or_does_not_stream_bring_no_first_token() -> None:
    half = soak(cancel=[{"share": 0.5, "at": "queued"}])
    spoken = soak(stream=0.25)
    whole = Check("x")
    assert [expected_count(half.plan_view(), whole, what).mean for what in ("ttft", "e2e", "errors")] == [160, 160, 320]  # type: ignore[union-attr]
    assert [expected_count(spoken.plan_view(), whole, what).mean for what in ("ttft", "e2e")] == [80, 320]  # type: ignore[union-attr]


def test_gaps_are_counted_in_whole_windows_of_the_histogram() -> None:
    calm = expected_count(soak(output_tokens=11).plan_view(), Check("x"), "itl")
    broken = expected_count(
        soak({"id": "f", "at_s": 20.0, "recover_s": 5.0}, output_tokens=11).plan_view(), Check("x"), "itl"
    )
    assert calm is not None
    assert broken is not None
    assert (calm.mean, broken.mean) == (3200, pytest.approx(4 * 10 * (80 - 6.25 - 1 - 40 + 1)))


def test_a_load_that_may_fall_silent_promises_only_what_cannot_lie_elsewhere() -> None:
    trace = soak({"id": "f", "at_s": 10.0, "recover_s": 5.0}, arrivals="trace", rate=None, rate_mean=4.0, rate_max=8.0)
    seen = expected_count(trace.plan_view(), Check("x"), "e2e")
    assert seen is not None
    left_out_s = 20.0 + 6.25
    assert seen.least <= 4 * 100 - 8 * left_out_s
    assert seen.least > 100
    inside = expected_count(trace.plan_view(), Check("x", where="f"), "e2e")
    assert inside is not None
    assert inside.least == 0


def test_a_trend_counts_only_periods_that_keep_half_of_their_time() -> None:
    faults = [{"id": f"f{n}", "at_s": 60.0 * n, "recover_s": 40.0 if n < 3 else 10.0} for n in range(10)]
    run = soak(*faults)
    run.plan["load"][0]["period_s"] = 60.0
    run.plan["phases"][2]["planned_s"] = 600.0
    state, because, cure = refusal(run, "leak.rss_anon < 4MiB/h")
    assert state is NeedState.REFUSED
    assert because == "8 periods needed, 7 of 10 planned lie well outside fault windows"
    assert cure == "add 1m without a fault, or shorten recover"
    run.plan["phases"][2]["planned_s"] = 660.0
    assert refusal(run, "leak.rss_anon < 4MiB/h")[0] is NeedState.PLANNED


fault_times = st.lists(
    st.tuples(
        st.floats(0, 55), st.floats(1, 12), st.sampled_from(["kv.take: oom", "device.launch: hang 3s"]), st.floats(0, 1)
    ),
    max_size=4,
)


@settings(max_examples=examples(25))
@given(fault_times, st.integers(0, 10_000))
def test_judges_find_at_least_what_was_promised(faults: list[tuple[float, float, str, float]], seed: int) -> None:
    """A run of the plan as it may come: faults wait for their hit by chance, and heal when their argument is over."""
    planned = [
        {"id": f"f{n}", "at_s": at_s, "do": do, "recover_s": recover_s}
        for n, (at_s, recover_s, do, _) in enumerate(faults)
    ]
    run = soak(*planned, arrivals="constant")
    phases(run, ("warmup", 20), ("baseline", 30), ("trial", 90), ("recovery", 100), ("drain", 105))
    rng = random.Random(seed)
    for number in range(400):
        run.request(f"r{number}", number * S // 4, e2e_ns=rng.randrange(1, 9) * S // 10)
    for n, (at_s, _, do, luck) in enumerate(faults):
        arm_ns = int((TRIAL_S + at_s) * S)
        first_ns = arm_ns + int(luck * S / 4)
        heal_ns = min(first_ns + (3 * S if "hang" in do else 0), 90 * S)
        run.add("fault", id=f"f{n}", n=0, arm_ns=arm_ns, first_ns=first_ns, heal_ns=heal_ns, fired=1, state="healed")
    plan_view = run.plan_view()
    with run.history() as history:
        context = JudgeContext(history, plan_view)
        for where in ("outside", "all", *(f"f{n}" for n in range(len(faults)))):
            check = Check("ttft.p50 < 1s", where=where)
            promised = expected_count(plan_view, check, "ttft")
            assert promised is not None
            assert (
                latencies(context, "ttft", chosen(context, check)).n >= promised.least - 1
            )  # a constant stream has a phase


def test_a_poisson_stream_breaks_its_promise_in_one_run_of_a_hundred() -> None:
    plan_view = soak({"id": "f", "at_s": 10.0, "recover_s": 15.0}).plan_view()
    promised = expected_count(plan_view, Check("x"), "e2e")
    assert promised is not None
    here = selected_intervals(plan_view, "outside", ("baseline", "trial", "recovery"))
    rng, short = random.Random(3), 0
    for _ in range(2000):
        t_s, count = rng.expovariate(4.0), 0
        while t_s < 100.0:
            count += any(start <= t_s <= end for start, end in here)
            t_s += rng.expovariate(4.0)
        short += count < promised.least
    assert 0 < short <= 40, short


spans = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 9)).map(lambda each: (float(each[0]), float(each[0] + each[1])))
)


@given(spans, spans)
def test_time_is_either_within_or_without(some: list[tuple[float, float]], others: list[tuple[float, float]]) -> None:
    assert length(within(some, others)) + length(without(some, others)) == pytest.approx(length(some))
    seconds = {
        second
        for second in range(50)
        if any(start <= second + 0.5 <= end for start, end in some)
        and not any(start <= second + 0.5 <= end for start, end in others)
    }
    assert math.isclose(length(without(some, others)), len(seconds))
    assert merged(some) == merged(merged(some))
