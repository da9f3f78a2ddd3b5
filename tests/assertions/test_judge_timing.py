"""load, recovery, ceilings and the user's checks: seen failing, unknown, void, and quiet."""

import pytest

from assertions.verdict import Judged, Level, State
from tests.assertions.recorded import MS, Recorded, S, healthy


def with_check(that: str, **more: object) -> Recorded:
    run = healthy()
    run.plan["scenario"]["check"] = [{"that": that, "level": "required", **more}]
    return run


def said(run: Recorded, that: str) -> Judged:
    return next(judged for judged in run.verdict().judges if judged.name.startswith(that))


def slow(run: Recorded, first: int, last: int, ttft_ns: int, e2e_ns: int) -> None:
    rows = {row["request"]: row for row in run.tables["reply"]}
    for number in range(first, last):
        row, at_ns = rows[f"r{number}"], number * S // 8
        if row["outcome"] == "ok":
            row.update(first_ns=at_ns + ttft_ns, last_ns=at_ns + e2e_ns, end_ns=at_ns + e2e_ns)


def late(run: Recorded, by_ns: int) -> None:
    for row in run.tables["request"]:
        row["sent_ns"] = row["intended_ns"] + by_ns


class TestLatency:
    def test_each_phase_has_its_figures_though_nobody_wrote_a_check(self) -> None:
        run = healthy()
        run.plan["scenario"]["check"] = []
        slow(run, 35 * 8 + 1, 36 * 8, 3 * S, 4 * S)
        judged = run.judged("latency")
        assert (judged.state, judged.level) == (State.PASS, Level.OBSERVE)
        assert judged.figures["baseline.ttft_p99_s"] == pytest.approx(0.030, abs=0.001)
        assert judged.figures["trial.e2e_p99_s"] < 0.2  # 7 of 960 are not one of a hundred
        slow(run, 35 * 8 + 1, 37 * 8, 3 * S, 4 * S)
        judged = run.judged("latency")
        assert judged.figures["trial.ttft_p99_s"] == 3.0
        assert judged.observed is not None
        assert judged.observed.endswith("/3 s, e2e 105 ms/4 s")
        assert [each.text.split(":")[0] for each in judged.evidence] == ["baseline", "trial", "recovery"]

    def test_a_late_generator_takes_it_away_and_it_is_never_required(self) -> None:
        run = healthy()
        late(run, 45 * MS)
        assert run.judged("latency").state is State.UNKNOWN
        run = healthy()
        for table in ("request", "reply"):
            run.tables[table] = [row for row in run.tables[table] if not str(row.get("id")).startswith("r")]
        assert run.judged("latency").because == "no request to measure"


class TestLoad:
    def test_a_late_generator_is_unknown_and_names_its_limit(self) -> None:
        run = healthy()
        late(run, 45 * MS)  # 5 % of 800 ms is 40 ms
        judged = run.judged("load")
        assert judged.state is State.UNKNOWN
        assert "P99 45 ms" in judged.summary
        assert "the limit is 40 ms" in judged.summary

    def test_the_lateness_limit_is_never_under_10_ms(self) -> None:
        run = healthy()
        run.plan["scenario"]["check"] = [{"that": "ttft.p99 < 50ms"}]
        late(run, 9 * MS)
        assert run.judged("load").state is State.PASS

    def test_a_breach_voids_timing_judges_and_hides_no_exact_failure(self) -> None:
        run = healthy()
        late(run, 45 * MS)
        slow(run, 300, 1400, 900 * MS, 1000 * MS)
        run.find("reply", request="r900")["finish"] = None
        verdict = run.verdict()
        states = {judged.name: judged.state for judged in verdict.judges}
        assert states["ttft.p99 < 800ms [chat]"] is State.UNKNOWN
        assert states["errors.outside < 1%"] is State.PASS
        assert states["answered"] is State.FAIL
        assert verdict.exit_code == 1

    def test_arrivals_dropped_outside_fault_windows_are_a_breach(self) -> None:
        run = healthy()
        for number in range(900, 903):
            run.find("request", id=f"r{number}")["sent_ns"] = None
            run.drop("reply", request=f"r{number}")
            run.drop("served", request=f"r{number}")
        judged = run.judged("load")
        assert judged.state is State.UNKNOWN
        assert "3 arrivals dropped outside fault windows" in judged.summary
        assert run.judged("answered").state is State.PASS

    def test_arrivals_that_find_all_places_taken_by_a_hanging_server_are_the_servers_and_its_slowness_stands(
        self,
    ) -> None:
        run = healthy()
        slow(run, 800, 1400, 60_000 * MS, 61_000 * MS)
        for number in range(900, 910):
            run.find("request", id=f"r{number}")["sent_ns"] = None
            run.drop("reply", request=f"r{number}")
            run.drop("served", request=f"r{number}")
        judged = run.judged("load")
        assert (judged.state, judged.owner) == (State.UNKNOWN, "server")
        assert "100 requests in flight had no end, the first for 12.5 s" in judged.summary
        verdict = {each.name: each for each in run.verdict().judges}
        assert verdict["ttft.p99 < 800ms [chat]"].state is State.FAIL
        late(run, 45 * MS)
        assert run.judged("load").owner == "load"
        assert {each.name: each for each in run.verdict().judges}["ttft.p99 < 800ms [chat]"].state is State.UNKNOWN

    def test_arrivals_dropped_while_a_fault_blocks_the_server_are_not(self) -> None:
        run = healthy()
        for number in range(490, 500):
            run.find("request", id=f"r{number}")["sent_ns"] = None
            run.drop("reply", request=f"r{number}")
            run.drop("served", request=f"r{number}")
        judged = run.judged("load")
        assert judged.state is State.PASS
        assert judged.figures["dropped_in_windows"] == 10

    def test_a_fault_that_the_plan_does_not_declare_excuses_no_dropped_arrival(self) -> None:
        run = healthy()
        run.plan["faults"].clear()
        for number in range(490, 500):
            run.find("request", id=f"r{number}")["sent_ns"] = None
            run.drop("reply", request=f"r{number}")
            run.drop("served", request=f"r{number}")
        judged = run.judged("load")
        assert (judged.state, judged.owner) == (State.UNKNOWN, "server")

    def test_a_generator_without_processor_to_spare_is_a_breach(self) -> None:
        run = healthy()
        run.tables["sample"] = [{**row, "value": 0.99} for row in run.tables["sample"]]
        assert run.judged("load").state is State.UNKNOWN

    def test_arrivals_that_politeness_held_back_are_no_breach_and_are_told(self) -> None:
        run = healthy()
        run.plan["load"][0]["arrivals_planned"] = 3000
        for at_s in (5, 6):
            run.add("event", t_ns=at_s * S, proc="load", kind="held", value=700, detail="ramp")
        judged = run.judged("load")
        assert judged.state is State.PASS
        assert "1400 held back for the target's sake" in judged.summary

    def test_fewer_arrivals_than_planned_are_a_breach(self) -> None:
        run = healthy()
        run.plan["load"][0]["arrivals_planned"] = 3000
        assert "1480 arrivals, 3000 were planned" in run.judged("load").summary


class TestRecovery:
    def test_a_service_that_does_not_come_back_fails_and_names_the_fault(self) -> None:
        run = healthy()
        for row in run.tables["reply"]:
            if 62 * S <= row["end_ns"] <= 80 * S:
                row.update(outcome="http_error", http=500, finish=None)
        judged = run.judged("recovery")
        assert judged.state is State.FAIL
        assert judged.fault == "oom#0"
        assert "the first ok came 18.1 s later, 10 s after the heal were allowed" in judged.summary

    def test_a_service_that_stays_slow_fails(self) -> None:
        run = healthy()
        slow(run, 496, 1480, 200 * MS, 400 * MS)
        judged = run.judged("recovery")
        assert judged.state is State.FAIL
        assert "median e2e is 400 ms after recovery" in judged.summary

    def test_latency_is_not_compared_when_the_load_broke_its_promise(self) -> None:
        run = healthy()
        slow(run, 496, 1480, 200 * MS, 400 * MS)
        late(run, 45 * MS)
        judged = run.judged("recovery")
        assert judged.state is State.UNKNOWN
        assert (judged.because or "").startswith("load: sent late")

    def test_a_load_with_a_daily_curve_is_compared_by_its_probe_only(self) -> None:
        run = healthy()
        slow(run, 496, 1480, 200 * MS, 400 * MS)
        run.plan["load"][0]["period_s"] = 60.0
        assert run.judged("recovery").state is State.PASS

    def test_silence_after_the_heal_is_unknown(self) -> None:
        run = healthy()
        keep = [row["id"] for row in run.tables["request"] if not 62 * S <= row["intended_ns"] <= 80 * S]
        run.tables["request"] = [row for row in run.tables["request"] if row["id"] in set(keep)]
        run.tables["reply"] = [row for row in run.tables["reply"] if row["request"] in set(keep)]
        judged = run.judged("recovery")
        assert judged.state is State.UNKNOWN
        assert "nothing was asked soon after the heal" in judged.summary

    def test_recovery_by_completed_work_counts_ends(self) -> None:
        run = healthy()
        run.plan["faults"][0]["expect"] |= {"recover_s": None, "recover_completed": 20}
        assert run.judged("recovery").state is State.PASS
        for row in run.tables["reply"]:
            if 62 * S <= row["end_ns"] <= 80 * S:
                row.update(outcome="refused", http=429, finish=None)
        judged = run.judged("recovery")
        assert judged.state is State.FAIL
        assert "none of the 20 requests that ended after the heal was ok" in judged.summary

    def test_a_fault_that_never_healed_is_unknown(self) -> None:
        run = healthy()
        run.find("fault", id="oom").update(heal_ns=None, state="active")
        assert run.judged("recovery").state is State.UNKNOWN


class TestCeilings:
    NAME = "ttft.p99 < 800ms"

    def test_a_slow_server_fails_with_interval_since_when_and_the_slowest_by_name(self) -> None:
        run = healthy()
        slow(run, 700, 800, 900 * MS, 1000 * MS)
        slow(run, 750, 751, 950 * MS, 1000 * MS)
        judged = said(run, self.NAME)
        assert judged.state is State.FAIL
        assert judged.since_ns == 700 * S // 8
        assert judged.interval == "900 ms .. 900 ms"
        assert judged.evidence[0].request == "r750"
        assert "in this run" in judged.summary
        assert judged.fault == "no fault involved"

    @pytest.mark.parametrize(
        ("that", "ttft_ns", "fault"),
        [
            ("ttft.max < 1s", 2 * S, "oom#0"),
            ("ttft.max < 1s", 1100 * MS, "no fault involved"),
            ("ttft.p50 < 15ms", 2 * S, "no fault involved"),
        ],
    )
    def test_who_waited_longest_is_held_against_the_fault_that_fired_while_it_waited(
        self, that: str, ttft_ns: int, fault: str
    ) -> None:
        run = with_check(that, where="all")
        slow(run, 475, 476, ttft_ns, ttft_ns)  # intended at 59.375 s, and the fault fires at 61 s
        judged = said(run, that)
        assert judged.state is State.FAIL
        assert judged.fault == fault

    def test_between_enough_and_too_many_it_is_unknown_with_the_price(self) -> None:
        run = healthy()
        slow(run, 700, 710, 900 * MS, 1000 * MS)
        judged = said(run, self.NAME)
        assert judged.state is State.UNKNOWN
        assert judged.to_decide == "2010 requests with no more above the limit"

    def test_a_timeout_counts_with_the_time_it_waited(self) -> None:
        run = healthy()
        for number in range(700, 760):
            run.find("reply", request=f"r{number}").update(
                outcome="timeout", first_ns=None, end_ns=number * S // 8 + 60 * S
            )
        assert said(run, self.NAME).state is State.FAIL

    def test_latency_runs_from_the_intended_time(self) -> None:
        run = with_check("ttft.max < 100ms")
        run.find("request", id="r900")["sent_ns"] += 5 * S
        run.find("reply", request="r900")["first_ns"] += 5 * S
        assert said(run, "ttft.max").state is State.FAIL

    def test_fault_windows_are_left_out_by_default_and_kept_by_where_all(self) -> None:
        run = with_check("e2e.max < 500ms")
        slow(run, 500, 510, 900 * MS, 1000 * MS)
        assert said(run, "e2e.max").state is State.PASS
        run.plan["scenario"]["check"][0]["where"] = "all"
        assert said(run, "e2e.max").state is State.FAIL
        run.plan["scenario"]["check"][0]["where"] = "oom"
        assert said(run, "e2e.max").state is State.FAIL

    def test_a_check_within_a_fault_that_did_not_fire_is_unknown(self) -> None:
        run = with_check("e2e.max < 500ms", where="oom")
        run.tables["fault"].clear()
        run.tables["fire"].clear()
        judged = said(run, "e2e.max")
        assert judged.state is State.UNKNOWN
        assert "fault oom did not fire" in judged.summary

    def test_a_floor_of_a_median_is_the_mirror_of_a_ceiling(self) -> None:
        assert said(with_check("e2e.p50 > 50ms"), "e2e.p50").state is State.PASS
        assert said(with_check("e2e.p50 > 200ms"), "e2e.p50").state is State.FAIL

    def test_gaps_between_tokens_come_from_the_histogram(self) -> None:
        run = with_check("itl.p99 < 30ms")
        for window in range(4, 15):
            run.add("hist", t_ns=window * 10 * S, width_ns=10 * S, load="chat", metric="itl", bucket=20 * MS, n=1000)
        assert said(run, "itl.p99").state is State.PASS
        run.add("hist", t_ns=60 * S, width_ns=10 * S, load="chat", metric="itl", bucket=90 * MS, n=1000)
        assert said(run, "itl.p99").state is State.PASS, "the window lies in the fault's"
        run.add("hist", t_ns=100 * S, width_ns=10 * S, load="chat", metric="itl", bucket=90 * MS, n=1000)
        assert said(run, "itl.p99").state is State.FAIL

    def test_an_observed_check_is_shown_and_changes_no_exit_code(self) -> None:
        run = with_check("ttft.p99 < 1ms", level="observe")
        assert said(run, "ttft.p99").state is State.FAIL
        assert run.verdict().exit_code == 0


@pytest.mark.parametrize(
    ("that", "state"),
    [
        ("errors < 1%", State.PASS),
        ("errors.outside <= 0%", State.PASS),
        ("refused < 1%", State.PASS),
        ("dropped <= 0%", State.PASS),
        ("throughput.requests > 7.5/s", State.PASS),
        ("throughput.requests > 8.5/s", State.FAIL),
        ("throughput.tokens > 37/s", State.PASS),
        ("tpot.p50 < 30ms", State.PASS),
        ("e2e.mean < 90ms", State.FAIL),
        ("load.lateness.p99 < 10ms", State.PASS),
        ("recovery < 1s", State.PASS),
        ("recovery < 50ms", State.FAIL),
        ("host.hiccup.max < 50ms", State.UNKNOWN),
        ("max.fds < 200", State.UNKNOWN),
        ("max.fragmentation < 40%", State.UNKNOWN),
        ("host.disk_free > 1GiB", State.UNKNOWN),
        ("fallback_rate < 1%", State.UNKNOWN),
        ("failed_allocations < 1%", State.UNKNOWN),
    ],
)
def test_each_metric_of_a_check_is_read_from_the_run(that: str, state: State) -> None:
    judged = said(with_check(that), that)
    assert judged.state is state, judged.summary


def test_errors_inside_the_window_count_for_where_all_only() -> None:
    run = with_check("errors <= 0%", where="all")
    judged = said(run, "errors")
    assert judged.state is State.FAIL
    assert "1 of 1320 ended badly" in judged.summary


@pytest.mark.parametrize(("where", "told"), [("outside", "2 in "), ("all", "42 in "), ("oom", "40 in ")])
def test_fallbacks_are_counted_per_step_of_the_trial_in_and_outside_of_fault_windows(where: str, told: str) -> None:
    """Ten steps a second until a restart at 100 s; two fallbacks before the fault, and forty in its window."""
    run = with_check("fallback_rate < 1%", where=where)
    fell = [2.0 * (second > 40) + 40.0 * (second > 61) for second in range(190)]
    run.series("server.steps", [(second * S, 10.0 * (second % 100)) for second in range(190)])
    run.series("server.fallbacks", [(second * S, value) for second, value in enumerate(fell)])
    assert told in said(run, "fallback_rate").summary


@pytest.mark.parametrize(("refused_each_s", "state"), [(0.0, State.PASS), (1.0, State.FAIL)])
def test_refused_allocations_are_a_share_of_all_calls(refused_each_s: float, state: State) -> None:
    run = with_check("failed_allocations < 1%")
    run.series("kv.allocs", [(second * S, 9.0 * second) for second in range(190)])
    run.series("kv.failed", [(second * S, refused_each_s * second) for second in range(190)])
    judged = said(run, "failed_allocations")
    assert judged.state is state
    assert "calls for KV blocks" in judged.summary
    assert judged.figures["value"] == pytest.approx(refused_each_s / 10)


def test_a_share_is_told_with_its_interval() -> None:
    assert said(with_check("errors < 1%"), "errors").interval == "0 % .. 0.376 %"
