"""deadline, seen failing, unknown, quiet, and not planned where nobody could see it."""

from assertions.judge import NeedState, needs
from assertions.plan_view import PlanView
from assertions.verdict import State
from tests.assertions.recorded import MS, Recorded, S, healthy


def with_deadline(deadline_s: float = 3.0, timeout_s: float = 60.0) -> Recorded:
    run = healthy()
    run.plan["scenario"]["target"] = {"knobs": {"request_timeout_s": deadline_s}}
    for load in run.plan["scenario"]["load"]:
        load["timeout"] = timeout_s
    return run


def test_healthy_run_keeps_its_deadline():
    assert with_deadline().judged("deadline").state is State.PASS


def test_one_request_that_outlived_its_deadline_fails_by_name_and_with_the_fault_that_held_it():
    run = with_deadline()
    run.find("reply", request="r490")["end_ns"] = run.find("request", id="r490")["sent_ns"] + 4 * S + MS
    judged = run.judged("deadline")
    assert judged.state is State.FAIL
    assert judged.owner == "r490"
    assert judged.fault == "oom#0, which was active while r490 was in flight"


def test_moment_after_the_deadline_is_not_late():
    run = with_deadline()
    run.find("reply", request="r490")["end_ns"] = run.find("request", id="r490")["sent_ns"] + 4 * S - MS
    assert run.judged("deadline").state is State.PASS


def test_nobody_answered_is_unknown():
    run = with_deadline()
    run.tables["reply"].clear()
    assert run.judged("deadline").state is State.UNKNOWN


def test_clients_that_leave_first_can_not_judge_it_and_the_plan_says_what_would():
    plan_view = PlanView.from_plan(with_deadline(deadline_s=60.0, timeout_s=60.0).plan)
    (need,) = [need for need in needs(plan_view) if need.judge == "deadline"]
    assert need.state is NeedState.NOT_JUDGED
    assert "every client leaves before 61 s" in need.text


def test_scenario_without_a_deadline_has_no_such_judge():
    assert all(judged.name != "deadline" for judged in healthy().verdict().judges)
