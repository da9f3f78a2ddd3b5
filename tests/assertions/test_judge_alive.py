"""alive seen failing, unknown and quiet: deaths of the server, of ours, and of a target that is not ours."""

import pytest

from assertions.verdict import State
from tests.assertions.recorded import S, foreign, healthy


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

    def test_a_restart_by_the_harness_is_expected_and_a_death_of_the_new_process_is_not(self) -> None:
        run = healthy()
        run.add("event", t_ns=150 * S, proc="harness", kind="target_restart", detail="")
        run.add("event", t_ns=151 * S, proc="server", kind="exit", value=0, detail="")
        run.add("event", t_ns=152 * S, proc="server", kind="start", value=1, detail="")
        assert run.judged("alive").state is State.PASS
        run.add("event", t_ns=160 * S, proc="server", kind="exit", value=0, detail="")
        assert run.judged("alive").state is State.FAIL

    def test_a_server_that_does_not_start_again_fails(self) -> None:
        run = healthy()
        run.add("event", t_ns=186 * S, proc="harness", kind="target_restart", detail="")
        run.add("event", t_ns=187 * S, proc="server", kind="restart_failed", detail="no GPU")
        judged = run.judged("alive")
        assert judged.state is State.FAIL
        assert "did not start again: no GPU" in judged.summary

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


class TestExceptions:
    TEXT = "AssertionError: block 3 is published; in PagedPool.check_writes (runtime/memory/kv/paged.py:9); step 7; "

    def test_an_exception_of_the_runtime_fails_with_its_mechanism_and_its_request(self) -> None:
        run = healthy()
        run.add("event", t_ns=100 * S, proc="server", kind="exit", value=70, detail="")
        run.add("event", t_ns=100 * S, proc="server", kind="exception", detail=f"{self.TEXT}s-r3")
        judged = run.judged("alive")
        assert judged.state is State.FAIL
        assert judged.summary.startswith("exception in the runtime: AssertionError: block 3 is published; in PagedPool")
        assert (judged.owner, judged.summary[-2:]) == ("r3", "r3")

    def test_a_fault_excuses_no_exception(self) -> None:
        run = healthy()
        run.add("event", t_ns=61 * S, proc="server", kind="exception", detail=self.TEXT)
        assert run.judged("alive").state is State.FAIL
