"""alive, tokens, invariants, fired and reclamation, each seen failing, unknown and quiet."""

import pytest

from assertions.brief import Brief
from assertions.judge import Need, NeedState, needs
from assertions.judges.tokens import Likeness, classify
from assertions.rows import Canary
from assertions.verdict import State
from tests.assertions.recorded import MS, Recorded, S, healthy


class TestAlive:
    def test_a_server_that_died_by_itself_fails_with_its_exit_code(self) -> None:
        run = healthy()
        run.add("event", t_ns=100 * S, proc="server", kind="exit", value=-11, detail="SIGSEGV")
        judged = run.judged("alive")
        assert judged.state is State.FAIL
        assert "exited with code -11: SIGSEGV" in judged.summary
        assert (judged.since_ns, judged.owner) == (100 * S, "server")

    def test_the_same_death_by_a_fault_that_kills_is_expected(self) -> None:
        run = healthy()
        run.add("event", t_ns=61 * S, proc="server", kind="exit", value=70, detail="fatal")
        assert run.judged("alive").state is State.FAIL
        run.plan["faults"][0]["severity"] = "fatal"
        assert run.judged("alive").state is State.PASS

    def test_an_oom_kill_fails(self) -> None:
        run = healthy()
        run.add("event", t_ns=100 * S, proc="server", kind="oom_kill", value=1, detail="cgroup")
        assert run.judged("alive").state is State.FAIL

    def test_a_forbidden_log_line_fails_outside_fault_windows_only(self) -> None:
        run = healthy()
        run.add("event", t_ns=61 * S, proc="server", kind="log_hit", detail="Traceback")
        assert run.judged("alive").state is State.PASS
        run.add("event", t_ns=100 * S, proc="server", kind="log_hit", detail="CUDA error")
        judged = run.judged("alive")
        assert judged.state is State.FAIL
        assert "CUDA error" in judged.summary

    def test_a_killed_target_that_ended_the_run_fails_whatever_the_signal(self) -> None:
        run = healthy()
        run.cut_at(100 * S, "signal")
        run.add("event", t_ns=100 * S, proc="server", kind="exit", value=-9, detail="")
        assert run.judged("alive").state is State.UNKNOWN, "the harness was stopped, and stopped its child"
        run.tables["phase"][-1]["ended_by"] = "died"
        assert run.judged("alive").state is State.FAIL

    def test_a_crash_while_stopping_fails(self) -> None:
        run = healthy()
        run.find("event", kind="exit")["value"] = -6
        assert run.judged("alive").state is State.FAIL

    def test_a_foreign_target_that_is_gone_after_a_good_baseline_fails(self) -> None:
        run = foreign()
        for row in run.tables["reply"]:
            if row["end_ns"] > 175 * S:
                row.update(outcome="http_error", http=None, finish=None)
        judged = run.judged("alive")
        assert judged.state is State.FAIL
        assert "none of the last 82 requests reached it" in judged.summary

    def test_the_death_of_our_load_process_is_unknown(self) -> None:
        run = healthy()
        run.add("event", t_ns=100 * S, proc="load", kind="exit", value=-9, detail="")
        judged = run.judged("alive")
        assert judged.state is State.UNKNOWN
        assert "our load process died" in judged.summary

    def test_our_load_process_may_end_when_it_is_told_to(self) -> None:
        run = healthy()
        run.add("event", t_ns=189 * S, proc="load", kind="exit", value=-15, detail="")
        assert run.judged("alive").state is State.PASS

    def test_our_full_disk_is_unknown(self) -> None:
        run = healthy()
        run.series("host.disk_free", [(100 * S, 2.0**30), (101 * S, 4096.0)])
        assert run.judged("alive").state is State.UNKNOWN

    @pytest.mark.parametrize("ended_by", ["signal", "died", "abort"])
    def test_an_interrupted_run_is_unknown(self, ended_by: str) -> None:
        run = healthy()
        run.cut_at(100 * S, ended_by)
        judged = run.judged("alive")
        assert judged.state is State.UNKNOWN
        assert "cut short" in judged.summary


class TestTokens:
    @pytest.mark.parametrize(
        ("margin", "parted_at", "state", "likeness"),
        [
            (0.0, None, "equal", Likeness.EQUAL),
            (1e-6, None, "drift", Likeness.DRIFT),
            (9e-6, 3, "parted", Likeness.DRIFT),
            (5e-5, None, "drift", Likeness.UNDECIDED),
            (5e-5, 3, "parted", Likeness.UNDECIDED),
            (2e-4, None, "equal", Likeness.CORRUPT),
            (2e-4, 3, "parted", Likeness.CORRUPT),
            (float("nan"), None, "equal", Likeness.CORRUPT),
            (None, 3, "parted", Likeness.UNDECIDED),
            (None, None, "equal", Likeness.EQUAL),
            (None, None, "corrupt", Likeness.CORRUPT),
            (None, None, "unknown", Likeness.UNDECIDED),
            (5e-6, 3, "unknown", Likeness.UNDECIDED),
        ],
    )
    def test_bounds_decide_and_words_do_not(
        self, margin: float | None, parted_at: int | None, state: str, likeness: Likeness
    ) -> None:
        assert classify(Canary("c", "exact", 5, parted_at, margin, state)) is likeness

    def test_one_corrupt_canary_fails_and_is_named_with_its_time(self) -> None:
        run = healthy()
        run.find("canary", request="canary20").update(margin=3e-3, parted_at=2, state="parted")
        judged = run.judged("tokens")
        assert judged.state is State.FAIL
        assert judged.evidence[0].request == "canary20"
        assert judged.since_ns == 101 * S + MS
        assert "parted at token 2" in judged.evidence[0].text

    def test_bystanders_and_canaries_that_are_equal_are_both_counted(self) -> None:
        judged = healthy().judged("tokens")
        assert judged.state is State.PASS
        assert judged.summary.startswith("37 canaries equal their reference, 19 bystanders equal their twins")
        assert judged.figures["bystanders"] == 19

    def test_a_bystander_with_another_text_than_its_twin_fails_and_is_named(self) -> None:
        run = healthy()
        run.find("canary", request="r489").update(margin=0.2, state="corrupt")
        judged = run.judged("tokens")
        assert judged.state is State.FAIL
        assert "1 of 56 compared replies are corrupt: r489" in judged.summary
        assert (judged.evidence[0].request, judged.fault) == ("r489", "oom#0")
        assert judged.evidence[0].text == "against twin: the texts differ, its closest choice had a margin of 0.2"

    @pytest.mark.parametrize(("margin", "state"), [(3e-6, "drift"), (5e-5, "unknown")])
    def test_a_bystander_whose_twin_chose_by_a_hair_is_no_corruption(self, margin: float, state: str) -> None:
        run = healthy()
        run.find("canary", request="r487").update(margin=margin, state=state)
        judged = run.judged("tokens")
        assert judged.state is (State.PASS if state == "drift" else State.UNKNOWN)
        if state == "drift":
            assert "1 replies differ by rounding only" in judged.summary

    def test_twins_that_were_planned_and_not_compared_are_unknown_and_say_why(self) -> None:
        run = healthy()
        run.tables["canary"] = [row for row in run.tables["canary"] if row["reference"] != "twin"]
        judged = run.judged("tokens")
        assert (judged.state, judged.summary) == (
            State.UNKNOWN,
            "no bystander was compared with its twin: none ended well",
        )
        run.add("event", t_ns=190 * S, proc="harness", kind="twins_failed", detail="ReferenceFailed: no answer in 60 s")
        assert "ReferenceFailed: no answer in 60 s" in run.judged("tokens").summary

    def test_a_killed_run_has_no_twins_and_is_unknown(self) -> None:
        run = healthy()
        run.tables["canary"] = [row for row in run.tables["canary"] if row["reference"] != "twin"]
        run.cut_at(100 * S, "died")
        judged = run.judged("tokens")
        assert judged.state is State.UNKNOWN
        assert "no bystander was compared with its twin: trial never ended: the harness died" in judged.summary

    def test_a_corrupt_canary_fails_even_where_twins_are_missing(self) -> None:
        run = healthy()
        run.tables["canary"] = [row for row in run.tables["canary"] if row["reference"] != "twin"]
        run.find("canary", request="canary20").update(margin=3e-3, parted_at=2, state="parted")
        assert run.judged("tokens").state is State.FAIL

    def test_without_the_weights_there_are_no_twins_and_it_is_said(self) -> None:
        run = healthy()
        run.tables["canary"] = [row for row in run.tables["canary"] if row["reference"] != "twin"]
        run.plan["target"]["capabilities"].remove("exact")
        judged = run.judged("tokens")
        assert judged.state is State.PASS
        assert "bystanders have no twin without the model's weights" in judged.summary

    def test_rounding_is_printed_and_never_hidden(self) -> None:
        run = healthy()
        run.find("canary", request="canary20").update(margin=5e-6, state="drift")
        judged = run.judged("tokens")
        assert judged.state is State.PASS
        assert "1 replies differ by rounding only" in judged.summary

    def test_between_the_bounds_nobody_can_say(self) -> None:
        run = healthy()
        run.find("canary", request="canary20").update(margin=5e-5)
        assert run.judged("tokens").state is State.UNKNOWN

    def test_too_few_compared_canaries_are_unknown(self) -> None:
        run = healthy()
        for number in range(10):
            run.find("canary", request=f"canary{number}").update(compared=0, margin=None, state="unknown")
        judged = run.judged("tokens")
        assert judged.state is State.UNKNOWN
        assert "only 27 of 37 answered canaries were compared" in judged.summary

    def test_a_foreign_target_is_held_against_its_own_answers_in_the_baseline(self) -> None:
        run = self_agreeing()
        judged = run.judged("tokens")
        assert judged.state is State.PASS, judged.summary
        assert judged.figures["equal"] == 30
        run.find("canary", request="canary20")["tokens"] = '["other"]'
        assert run.judged("tokens").state is State.UNKNOWN
        for number in range(12, 37):
            run.find("canary", request=f"canary{number}")["tokens"] = '["other"]'
        judged = run.judged("tokens")
        assert judged.state is State.FAIL
        assert "against its own answer in the baseline" in judged.evidence[0].text

    def test_a_prompt_that_parts_already_in_the_baseline_has_no_reference(self) -> None:
        run = self_agreeing()
        run.find("canary", request="canary3")["tokens"] = '["other"]'
        judged = run.judged("tokens")
        assert judged.state is State.UNKNOWN
        assert "several answers to each fixed greedy prompt before the trial" in judged.summary

    def test_a_prompt_without_an_answer_of_its_own_is_left_out_and_the_others_are_judged(self) -> None:
        run = self_agreeing()
        two_prompts(run)
        run.find("canary", request="canary3")["tokens"] = '["other"]'  # of the second prompt, in the baseline
        judged = run.judged("tokens")
        assert judged.state is State.PASS, judged.summary
        assert (judged.figures["equal"], judged.figures["compared_share"]) == (15, 1.0)

    def test_parting_now_and_then_is_benign_only_where_the_target_did_so_before_the_trial(self) -> None:
        run = self_agreeing()
        two_prompts(run)
        run.find("canary", request="canary20")["tokens"] = '["other"]'
        assert run.judged("tokens").state is State.UNKNOWN
        run.find("canary", request="canary3")["tokens"] = '["other"]'
        judged = run.judged("tokens")
        assert judged.state is State.PASS
        assert "1 part, as some did before the trial" in judged.summary
        for number in range(8, 37):
            run.find("canary", request=f"canary{number}")["tokens"] = '["other"]'
        assert run.judged("tokens").state is State.FAIL

    def test_self_agreement_needs_a_baseline_in_which_a_prompt_comes_twice(self) -> None:
        run = foreign()
        assert need_of(run, "tokens").state is NeedState.PLANNED
        run.plan["phases"][1]["planned_s"] = 9.0
        need = need_of(run, "tokens")
        assert need.state is NeedState.NOT_JUDGED
        assert "a baseline of 10s" in need.text

    def test_no_canary_at_all_is_unknown(self) -> None:
        run = healthy()
        run.tables["canary"].clear()
        assert run.judged("tokens").state is State.UNKNOWN


class TestInvariants:
    def test_a_breach_fails_with_its_words_and_time(self) -> None:
        run = healthy()
        run.add("event", t_ns=100 * S, proc="server", kind="invariant", detail="kv tag: block 7 of r800 holds r799")
        judged = run.judged("invariants")
        assert judged.state is State.FAIL
        assert "block 7 of r800 holds r799" in judged.summary
        assert judged.since_ns == 100 * S

    def test_a_breach_that_the_fault_is_meant_to_cause_is_excused_in_its_window_only(self) -> None:
        run = healthy()
        run.plan["faults"][0]["symptom"] = "event:invariant"
        run.add("event", t_ns=61 * S, proc="server", kind="invariant", detail="kv tag")
        assert run.judged("invariants").state is State.PASS
        assert run.judged("fired").state is State.PASS
        run.add("event", t_ns=100 * S, proc="server", kind="invariant", detail="kv tag")
        assert run.judged("invariants").state is State.FAIL

    def test_a_silent_server_is_unknown(self) -> None:
        run = healthy()
        run.tables["served"].clear()
        run.tables["audit"].clear()
        assert run.judged("invariants").state is State.UNKNOWN


class TestFired:
    def unproven(self, run: Recorded) -> str:
        judged = run.judged("fired")
        assert judged.state is State.UNKNOWN, judged.summary
        assert judged.fault == "oom#0"
        return judged.summary

    def test_a_fault_that_never_fired_is_unknown(self) -> None:
        run = healthy()
        run.tables["fire"].clear()
        run.find("fault", id="oom").update(fired=0, first_ns=None)
        assert "fired 0 times, at least 1 were wanted" in self.unproven(run)

    def test_a_fault_that_was_never_armed_is_unknown(self) -> None:
        run = healthy()
        run.tables["fault"].clear()
        assert "was never armed" in self.unproven(run)

    def test_a_fire_without_its_symptom_is_one_half_only(self) -> None:
        run = healthy()
        run.drop("mark", name="kv.out_of_blocks")
        assert "its symptom (mark:kv.out_of_blocks) was not seen: one half only" in self.unproven(run)

    def test_a_symptom_at_another_time_proves_nothing(self) -> None:
        run = healthy()
        run.find("mark", name="kv.out_of_blocks")["t_ns"] = 100 * S
        assert "one half only" in self.unproven(run)

    def test_a_symptom_without_a_fire_is_one_half_only(self) -> None:
        run = healthy()
        run.plan["faults"][0]["fired_min"] = 2
        assert "fired 1 times, at least 2" in self.unproven(run)

    def test_a_required_mark_that_was_not_reached_is_unknown(self) -> None:
        run = healthy()
        run.drop("mark", name="kv.preempt")
        assert "did not lead to kv.preempt" in self.unproven(run)

    def test_an_action_without_a_symptom_cannot_be_proven(self) -> None:
        run = healthy()
        run.plan["faults"][0]["symptom"] = ""
        assert "declares no symptom" in self.unproven(run)

    def test_an_unknown_form_of_symptom_is_unknown_and_says_what_is_known(self) -> None:
        run = healthy()
        run.plan["faults"][0]["symptom"] = "smell:smoke"
        assert "known forms are mark:..." in run.judged("fired").summary

    @pytest.mark.parametrize(
        ("symptom", "state"),
        [
            ("outcome:refused", State.PASS),
            ("outcome:timeout", State.UNKNOWN),
            ("reply:error", State.PASS),
            ("reply:late", State.UNKNOWN),
            ("audit:leak", State.UNKNOWN),
            ("canary:parted", State.UNKNOWN),
        ],
    )
    def test_each_form_of_symptom_is_looked_for_where_it_shows(self, symptom: str, state: State) -> None:
        run = healthy()
        run.plan["faults"][0]["symptom"] = symptom
        assert run.judged("fired").state is state

    def test_a_late_reply_is_late_beside_those_before_the_fault(self) -> None:
        run = healthy()
        run.plan["faults"][0]["symptom"] = "reply:late"
        run.find("reply", request="r487")["end_ns"] = 62 * S
        assert run.judged("fired").state is State.PASS

    def test_a_run_without_faults_has_nothing_to_prove(self) -> None:
        run = healthy()
        run.plan["faults"] = []
        assert run.judged("fired").state is State.PASS


class TestReclamation:
    def test_a_block_that_stays_fails_with_owner_last_events_and_growth(self) -> None:
        run = healthy()
        run.tables["audit"][0] |= {"value": 3, "owner": "r700", "history": "take 87.5 s, cancel 87.6 s"}
        judged = run.judged("reclamation")
        assert judged.state is State.FAIL
        assert judged.owner == "r700"
        assert "3 blocks too many (live) at the drain, held by r700" in judged.summary
        assert "take 87.5 s, cancel 87.6 s" in judged.evidence[0].text
        assert judged.figures["per_1000_completions"] == pytest.approx(3000 / 1516)
        assert judged.figures["per_1000_fires"] == 3000
        assert judged.fault == "oom#0"

    def test_too_few_is_as_wrong_as_too_many(self) -> None:
        run = healthy()
        run.tables["audit"][0] |= {"value": 9, "expected": 10}
        assert "1 blocks missing" in run.judged("reclamation").summary

    def test_a_block_stuck_in_limbo_fails(self) -> None:
        run = healthy()
        run.tables["audit"][1]["value"] = 1
        assert run.judged("reclamation").state is State.FAIL

    def test_what_is_cached_is_not_leaked(self) -> None:
        run = healthy()
        run.tables["audit"][2]["value"] = 4000
        assert run.judged("reclamation").state is State.PASS

    def test_limbo_during_a_hang_is_right_and_after_it_is_not(self) -> None:
        run = healthy()
        run.add("audit", t_ns=61 * S + MS, scope="quiesce", name="kv.blocks", kind="limbo", value=2, expected=0)
        assert run.judged("reclamation").state is State.PASS
        run.tables["audit"][-1]["t_ns"] = 63 * S
        judged = run.judged("reclamation")
        assert (judged.state, judged.since_ns) == (State.FAIL, 63 * S)

    def test_a_leak_that_the_fault_was_asked_to_make_is_excused_for_whom_it_hit_only(self) -> None:
        run = healthy()
        run.plan["faults"][0]["symptom"] = "audit:leak"
        run.tables["audit"][0] |= {"value": 3, "owner": "r488"}
        assert run.judged("reclamation").state is State.PASS
        assert run.judged("fired").state is State.PASS
        run.tables["audit"][0]["owner"] = "r600"
        assert run.judged("reclamation").state is State.FAIL

    def test_the_sum_over_all_owners_is_excused_with_them_and_not_beyond_them(self) -> None:
        run = healthy()
        run.plan["faults"][0]["symptom"] = "audit:leak"
        run.tables["audit"][0] |= {"value": 3, "owner": "r488"}
        total = {"t_ns": 189 * S, "scope": "drain", "kind": "live", "expected": 0, "unit": "blocks"}
        run.add("audit", name="kv.blocks.live", value=3, **total)
        assert run.judged("reclamation").state is State.PASS
        run.tables["audit"][-1]["value"] = 4
        assert run.judged("reclamation").state is State.FAIL

    def test_a_run_without_any_audit_or_gauge_is_unknown(self) -> None:
        run = healthy()
        run.tables["audit"].clear()
        assert run.judged("reclamation").state is State.UNKNOWN

    def test_a_drain_that_was_not_audited_is_unknown(self) -> None:
        run = healthy()
        for audit in run.tables["audit"]:
            audit |= {"scope": "quiesce", "t_ns": 100 * S}
        assert "the drain was never audited" in run.judged("reclamation").summary

    @pytest.mark.parametrize(
        ("gauge", "value", "state"),
        [
            ("server.running", 0.0, State.PASS),
            ("server.running", 1.0, State.FAIL),
            ("kv.usage", 0.02, State.PASS),
            ("kv.usage", 0.03, State.FAIL),
        ],
    )
    def test_a_foreign_target_is_read_from_its_gauges_at_the_drain(
        self, gauge: str, value: float, state: State
    ) -> None:
        run = foreign()
        idle = 0.02 if gauge == "kv.usage" else 0.0
        run.series(gauge, [(0, idle), (100 * S, 0.7), (189 * S, value)])
        judged = run.judged("reclamation")
        assert judged.state is state, judged.summary

    def test_a_gauge_that_never_came_back_is_told_since_the_first_quiesce_and_per_1000(self) -> None:
        run = rested()
        run.series("server.running", [(0, 0.0), (82 * S, 0.0), (102 * S, 2.0), (110 * S, 5.0), (189 * S, 3.0)])
        judged = run.judged("reclamation")
        assert judged.state is State.FAIL
        assert judged.summary == "server.running is 3 after the drain, idle is 0"
        assert judged.since_ns == 102 * S
        assert "per 1,000 completions" in (judged.observed or "")

    def test_a_gauge_that_was_only_late_at_a_quiesce_is_no_leak(self) -> None:
        run = rested()
        run.series("server.running", [(0, 0.0), (82 * S, 1.0), (102 * S, 2.0), (189 * S, 0.0)])
        assert run.judged("reclamation").state is State.PASS

    def test_a_pid_alone_is_no_ground_to_judge_reclamation_on(self) -> None:
        run = foreign()
        run.plan["target"]["capabilities"] = ["pid"]
        need = need_of(run, "reclamation")
        assert need.state is NeedState.NOT_JUDGED
        assert "--metrics URL" in need.text

    def test_a_metrics_page_promises_neither_invariants_nor_a_count_of_live_blocks(self) -> None:
        run = foreign()
        assert need_of(run, "reclamation").state is NeedState.PLANNED
        assert need_of(run, "invariants").state is NeedState.NOT_JUDGED
        assert need_of(run, "leak.kv_live").state is NeedState.NOT_JUDGED

    def test_memory_is_told_per_1000_completions(self) -> None:
        run = foreign()
        run.series("server.running", [(0, 0.0), (189 * S, 0.0)])
        run.series("server.rss_anon", [(35 * S, 1e6), (189 * S, 2e6)])
        judged = run.judged("reclamation")
        done = sum(row["end_ns"] >= 35 * S and row["outcome"] == "ok" for row in run.tables["reply"])
        assert judged.figures["rss_per_1000_completions"] == pytest.approx(1e9 / done)
        assert f"RSS +{1e9 / done / 1024:.3g} KiB per 1,000 completions" in judged.summary

    def test_of_few_cancels_no_rate_is_made(self) -> None:
        run = foreign()
        run.series("server.running", [(0, 0.0), (189 * S, 0.0)])
        run.series("server.rss_anon", [(35 * S, 1 << 20), (189 * S, 1 << 20)])
        for number in range(400, 420):
            run.find("request", id=f"r{number}")["cancel_at"] = "queued"
            run.find("reply", request=f"r{number}")["outcome"] = "cancelled"
        assert run.judged("reclamation").observed == "running 0; RSS +0 B over 20 cancels"


def foreign() -> Recorded:
    """A stock server: no ledger, no audit, no injector of ours in it."""
    run = healthy()
    run.plan["target"] = {"kind": "url", "url": "http://127.0.0.1:8000", "capabilities": ["pid", "metrics"]}
    for table in ("audit", "served", "event"):
        run.tables[table].clear()
    return run


def rested() -> Recorded:
    """A foreign target with two pauses in its trial, each of which came to rest."""
    run = foreign()
    for n, start_s in enumerate((80, 100)):
        run.add("phase", name="quiesce", n=n, start_ns=start_s * S, end_ns=(start_s + 3) * S, ended_by="done")
    run.tables["phase"].sort(key=lambda row: row["start_ns"])
    return run


def need_of(run: Recorded, name: str) -> Need:
    return next(need for need in needs(Brief.from_plan(run.plan)) if need.judge == name)


def two_prompts(run: Recorded) -> None:
    """Canaries ask two prompts in turn."""
    for row in run.tables["request"]:
        if row["kind"] == "canary":
            row["prompt_sha"] = f"sha{int(row['id'].removeprefix('canary')) % 2}"


def self_agreeing() -> Recorded:
    """Canaries as the recorder leaves them when it knows no reference: seven of one prompt before the trial."""
    run = foreign()
    for row in run.tables["canary"]:
        row.update(reference=None, compared=None, margin=None, state="unknown", tokens='["a", "b"]')
    for row in run.tables["request"]:
        if row["kind"] == "canary":
            row["prompt_sha"] = "sha0"
    return run
