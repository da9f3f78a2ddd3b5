"""reclamation seen failing, unknown and quiet: by audits, and by the gauges of a target that has none."""

import pytest

from assertions.judge import NeedState
from assertions.verdict import State
from tests.assertions.recorded import MS, Recorded, S, foreign, healthy, need_of


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

    @pytest.mark.parametrize(
        ("owner", "fault"),
        [
            ("r100", "no fault involved"),  # it ended at 12.6 s, and the fault was armed at 60 s
            ("s-r490", "oom#0, which was active while r490 was in flight"),  # by the server's own id
            ("r488", "oom#0, which hit r488"),
            ("r570", "no fault involved"),  # it began after the heal
            ("r700", "no fault involved"),
        ],
    )
    def test_only_a_fault_that_could_show_while_the_owner_lived_is_blamed(self, owner: str, fault: str) -> None:
        run = healthy()
        run.tables["audit"][0] |= {"value": 3, "owner": owner}
        judged = run.judged("reclamation")
        assert judged.fault == fault
        ended_ns = run.find("reply", request=owner.removeprefix("s-"))["end_ns"]
        assert judged.since_ns == ended_ns

    @pytest.mark.parametrize(
        ("clean_s", "kept_s", "fault"),
        [(50, 80, "oom#0"), (None, 50, "no fault involved"), (100, 120, "no fault involved"), (None, 120, "oom#0")],
    )
    def test_without_an_owner_it_began_after_the_last_audit_that_found_nothing(
        self, clean_s: int | None, kept_s: int, fault: str
    ) -> None:
        run = healthy()
        for at_s, value in ((clean_s, 0), (kept_s, 3)):
            if at_s is not None:
                row = {"scope": "quiesce", "name": "kv.blocks", "kind": "live", "expected": 0}
                run.add("audit", t_ns=at_s * S, value=value, **row)
        judged = run.judged("reclamation")
        assert (judged.fault, judged.since_ns) == (fault, kept_s * S)

    def test_a_leak_of_a_run_without_faults_has_no_suspect(self) -> None:
        run = healthy()
        run.tables["fault"].clear()
        run.tables["audit"][0] |= {"value": 3, "owner": "r490"}
        assert run.judged("reclamation").fault is None

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
        assert (judged.since_ns, judged.fault) == (102 * S, "no fault involved")
        assert "per 1,000 completions" in (judged.observed or "")

    def test_a_gauge_that_was_back_at_every_quiesce_is_told_since_the_drain(self) -> None:
        run = rested()
        run.series("server.running", [(0, 0.0), (82 * S, 0.0), (102 * S, 0.0), (189 * S, 3.0)])
        assert run.judged("reclamation").since_ns == 189 * S

    def test_a_gauge_that_was_never_seen_back_may_be_the_faults_doing(self) -> None:
        run = rested()
        run.series("server.running", [(0, 0.0), (82 * S, 1.0), (102 * S, 2.0), (189 * S, 3.0)])
        judged = run.judged("reclamation")
        assert (judged.since_ns, judged.fault) == (82 * S, "oom#0")

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


def rested() -> Recorded:
    """A foreign target with two pauses in its trial, each of which came to rest."""
    run = foreign()
    for n, start_s in enumerate((80, 100)):
        run.add("phase", name="quiesce", n=n, start_ns=start_s * S, end_ns=(start_s + 3) * S, ended_by="done")
    run.tables["phase"].sort(key=lambda row: row["start_ns"])
    return run
