"""fired seen unknown and quiet: it takes both halves of the evidence."""

import pytest

from assertions.verdict import State
from tests.assertions.recorded import Recorded, S, healthy


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
