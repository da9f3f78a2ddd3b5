"""needs: what can be decided is said before hours are spent on it."""

import re
from typing import Any

import pytest

from assertions.expression import METRICS, parse
from assertions.judge import Need, NeedState, needs
from tests.assertions.recorded import Recorded, healthy, long_run


def need(run: Recorded, that: str, **more: object) -> Need:
    run.plan["scenario"]["check"] = [{"that": that, **more}]
    return next(each for each in needs(run.plan_view()) if each.judge.startswith(that))


@pytest.mark.parametrize(
    ("that", "more", "because", "cure"),
    [
        (
            "ttft.p99 < 800ms",
            {"load": "chat"},
            "p99 needs 459 requests, 307 are planned outside fault",
            "a trial of 223s",
        ),
        ("leak.rss_anon < 4MiB/h", {}, "8 periods needed, 0 planned", "add 38m"),
        ("drift.ttft.p99 < 20%", {}, "drift is judged on a probe stream", "probe = true"),
        ("ttft.p50 < 1s", {"load": "nobody"}, 'no load "nobody"', "loads are chat"),
        ("ttft.p50 < 1s", {"where": "nothing"}, 'no fault "nothing"', 'where is "outside"'),
        ("ttft.p42 < 1s", {}, 'no metric "ttft.p42"', "write the check again"),
        ("ttft.p50 < 1MiB", {}, 'cannot be compared with "1MiB"', "write the check again"),
    ],
)
def test_a_check_that_cannot_be_decided_is_refused_with_the_cure(
    that: str, more: dict[str, Any], because: str, cure: str
) -> None:
    run = healthy()
    if "p99" in that:
        run.plan["load"][0] |= {"rate_mean": 2.0, "rate_max": 2.0}
    said = need(run, that, **more)
    assert said.state is NeedState.REFUSED
    assert because in (said.because or "")
    assert cure in (said.cure or "")


def test_an_observed_check_that_cannot_be_decided_is_not_judged_and_not_refused() -> None:
    assert need(healthy(), "leak.rss_anon < 4MiB/h", level="observe").state is NeedState.NOT_JUDGED


def test_a_default_judge_prints_its_price() -> None:
    run = long_run(periods=3)
    run.plan["phases"][0]["planned_s"] = 180.0
    run.plan["target"]["capabilities"] = ["pid"]
    texts = [each.text for each in needs(run.plan_view())]
    assert "not judged: leak.rss_anon (8 periods needed, 3 planned: add 5m)" in texts


def test_a_trend_says_the_smallest_budget_it_can_decide() -> None:
    said = need(long_run(), "leak.rss_anon < 4MiB/h")
    assert said.state is NeedState.PLANNED
    assert "a budget under about 4 SD of the series over the trial is seldom decidable" in (said.note or "")


def drifting(that: str, rate: float, hours: float = 8.0) -> Need:
    run = long_run()
    run.plan["load"][0] |= {"rate_mean": rate, "rate_max": rate, "period_s": 1800.0}
    run.plan["phases"] = [{"name": "trial", "n": 0, "planned_s": hours * 3600}]
    return need(run, that)


@pytest.mark.parametrize(("stat", "low", "high"), [("p99", 22_000, 31_000), ("p50", 2_400, 3_500)])
def test_drift_says_what_twice_its_limit_costs(stat: str, low: int, high: int) -> None:
    """A limit of 20 % against a true 40 % at a log SD of 0.5, with a test of size 1 % and power 90 %."""
    said = drifting(f"drift.ttft.{stat} < 20%", 1.0)
    found = re.search(r"([\d,]+) in [\d.]+ (?:min|h) see twice the limit", said.note or "")
    assert found, said
    assert low < int(found[1].replace(",", "")) < high


def test_a_drift_that_no_probe_of_the_plan_can_show_is_refused_with_its_price() -> None:
    said = drifting("drift.ttft.p50 < 0.1%", 1.0)
    assert said.state is NeedState.REFUSED
    assert "a limit of 0.10% cannot be judged: 28,800 probes show a change from" in (said.because or "")
    none = drifting("drift.ttft.p50 < 0%", 1.0)
    assert none.state is NeedState.REFUSED
    assert "a limit of 0% cannot be judged" in (none.because or "")
    assert re.fullmatch(r"[\d,]+ probes \([\d.]+ h at 1/s\), or a limit of \d+%", said.cure or "")


@pytest.mark.parametrize(("rises", "state"), [(True, NeedState.REFUSED), (False, NeedState.PLANNED)])
def test_drift_under_a_trace_whose_rate_has_a_trend_is_refused(rises: bool, state: NeedState) -> None:
    run = long_run()
    run.plan["phases"] = [{"name": "trial", "n": 0, "planned_s": 7200.0}]
    arrivals = [10 + 10 * second // 7200 if rises else 10 + 5 * (second // 100 % 2) for second in range(7200)]
    run.plan["scenario"]["load"].append({"id": "trace", "probe": False, "arrivals": "trace"})
    run.plan["load"].append({"id": "trace", "rate_mean": 15.0, "arrivals_by_second": " ".join(map(str, arrivals))})
    said = need(run, "drift.ttft.p50 < 20%")
    assert said.state is state
    assert not rises or "the offered load changes by +6" in (said.because or "")


def test_a_quantile_whose_probes_do_not_fill_24_blocks_is_refused_with_a_faster_probe() -> None:
    run = long_run()
    run.plan["load"][0] |= {"rate_mean": 0.5, "rate_max": 0.5, "period_s": 300.0}
    run.plan["phases"] = [{"name": "trial", "n": 0, "planned_s": 3600.0}]
    said = need(run, "drift.ttft.p99 < 20%")
    assert said.state is NeedState.REFUSED
    assert said.because == "p99 needs 2,400 values outside fault windows, 1,800 are planned"
    assert said.cure == "probe at 0.67/s"


def test_drift_under_a_load_that_still_rises_is_refused() -> None:
    run = long_run()
    run.plan["scenario"]["load"].append({"id": "chat", "probe": False, "arrivals": "ramp", "period": 600.0})
    run.plan["load"].append({"id": "chat", "rate_mean": 5.0, "rate_max": 9.0, "period_s": None})
    said = need(run, "drift.ttft.p50 < 20%")
    assert said.state is NeedState.REFUSED
    assert "load chat still rises when the trial begins" in (said.because or "")


def test_a_leak_of_less_than_a_page_over_the_trial_is_refused() -> None:
    run = long_run()
    run.plan["target"]["capabilities"] = ["pid"]
    said = need(run, "leak.rss_anon < 1KiB/h")
    assert said.state is NeedState.REFUSED
    assert "less than one page of memory" in (said.because or "")
    assert need(run, "leak.rss_anon < 64KiB/h").state is NeedState.PLANNED


@pytest.mark.parametrize(("kind", "state"), [("builtin", NeedState.PLANNED), ("url", NeedState.REFUSED)])
def test_fragmentation_is_refused_where_the_target_cannot_tell_it(kind: str, state: NeedState) -> None:
    run = healthy()
    run.plan["target"]["kind"] = kind
    assert need(run, "max.fragmentation < 40%").state is state


def test_a_quantile_says_how_many_may_break_the_limit() -> None:
    assert (
        need(healthy(), "ttft.p99 < 800ms").note
        == "of about 1231 requests 4 may break the limit and PASS, over 21 FAIL"
    )


def test_the_four_that_every_run_must_have_are_always_planned() -> None:
    run = healthy()
    run.plan["target"] = {"kind": "url", "capabilities": []}
    run.plan["faults"] = []
    planned = {each.judge for each in needs(run.plan_view()) if each.state is NeedState.PLANNED}
    assert planned >= {"answered", "alive", "fired", "load"}
    assert not planned & {"invariants", "reclamation", "leak.rss_anon", "recovery"}


def test_a_trial_given_in_work_lasts_as_long_as_its_rate_takes() -> None:
    run = healthy()
    run.plan["scenario"]["phases"]["trial"] = {"completed": 60, "max": None}
    run.plan["phases"] = [
        {"name": name, "n": 0, "planned_s": planned_s}
        for name, planned_s in (("warmup", 20.0), ("baseline", 5.0), ("trial", None), ("recovery", 5.0))
    ]
    run.plan["faults"] = []
    said = need(run, "ttft.p99 < 800ms")
    assert said.because == "p99 needs 459 requests, 140 are planned outside fault windows and 112 are sure to come"
    assert said.cure == "a trial of 432 completed requests or p95"
    assert need(run, "ttft.p95 < 800ms").state is NeedState.PLANNED


def test_a_virtual_run_has_no_process_to_leak() -> None:
    run = long_run()
    run.plan["scenario"]["drive"] = "virtual"
    assert need(run, "leak.rss_anon < 4MiB/h").because == "a virtual run has no server process"
    assert need(run, "host.hiccup.max < 1s").state is NeedState.REFUSED
    assert need(run, "max.fds < 200").state is NeedState.REFUSED


def test_our_table_of_metrics_is_that_of_the_scenarios() -> None:
    theirs = pytest.importorskip("scenarios.metrics")
    units = {
        "s": "time", "share": "share", "per_s": "per_second", "bytes": "bytes",
        "bytes_per_h": "bytes_per_hour", "count_per_h": "count_per_hour",
        "share_per_h": "share_per_hour", "count": "count",
    }  # fmt: skip
    assert {name: (units[metric.unit.value], metric.stats) for name, metric in theirs.METRICS.items()} == METRICS


@pytest.mark.parametrize(
    "text",
    [
        "ttft.p99 < 800ms", "e2e.max <= 2m", "errors.outside < 1%", "errors < 0.01", "leak.rss_anon < 4MiB/h",
        "leak.fds <= 1/h", "throughput.tokens > 300/s", "drift.ttft.p99 < 120%", "host.disk_free >= 2GiB",
        "recovery < 30s",
    ],
)  # fmt: skip
def test_a_check_reads_as_the_scenarios_read_it(text: str) -> None:
    theirs = pytest.importorskip("scenarios.expr").parse_condition(text)
    ours = parse(text)
    assert (ours.metric, ours.stat, ours.op) == (theirs.metric, theirs.stat, theirs.op)
    assert ours.value == pytest.approx(theirs.value)
