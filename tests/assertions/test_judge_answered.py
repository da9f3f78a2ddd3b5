"""answered, seen failing on each kind of broken promise."""

import pytest

from assertions.verdict import Judged, State
from tests.assertions.recorded import MS, Recorded, S, healthy


def fails(run: Recorded, request: str, words: str) -> Judged:
    judged = run.judged("answered")
    assert judged.state is State.FAIL, judged.summary
    assert [e for e in judged.evidence if e.request == request and words in e.text], judged.evidence
    return judged


def end(run: Recorded, request: str, outcome: str, http: int | None = 500) -> None:
    """Client and server both say so."""
    run.find("reply", request=request).update(outcome=outcome, http=http, finish=None, first_ns=None)
    run.find("served", request=request).update(outcome=outcome, finish=None)


@pytest.mark.parametrize(
    "outcome", ["http_error", "inband_error", "truncated", "no_finish_reason", "timeout", "refused"]
)
def test_an_outcome_that_no_fault_allows_fails_and_names_the_request(outcome: str) -> None:
    run = healthy()
    end(run, "r900", outcome)
    judged = fails(run, "r900", f"ended {outcome}")
    assert judged.since_ns == 900 * S // 8 + MS
    assert judged.fault == "no fault involved"
    assert run.verdict().exit_code == 1


def test_the_suspect_of_a_request_that_began_before_the_fault_and_ended_after_it_is_that_fault() -> None:
    run = healthy()
    end(run, "r487", "http_error")  # sent at 60.876 s, before the fire at 61 s
    run.find("reply", request="r487")["end_ns"] = 60 * S + 950 * MS
    assert run.judged("answered").fault == "no fault involved"
    run.find("reply", request="r487")["end_ns"] = 61 * S + 50 * MS
    assert run.judged("answered").fault == "oom#0, which was active while r487 was in flight"


def test_a_fault_allows_its_outcome_to_those_it_hit_only() -> None:
    run = healthy()
    end(run, "r490", "refused", 429)
    fails(run, "r490", "no fault allows it")


def test_victims_in_scope_are_allowed_the_outcome_within_the_window() -> None:
    run = healthy()
    end(run, "r490", "refused", 429)
    run.plan["faults"][0]["expect"]["victims"] = "scope"
    assert run.judged("answered").state is State.PASS
    run.find("request", id="r490")["grp"] = "other"
    fails(run, "r490", "no fault allows it")


def test_victims_all_are_allowed_the_outcome_until_the_recovery_margin_is_over() -> None:
    run = healthy()
    run.plan["faults"][0]["expect"]["victims"] = "all"
    end(run, "r570", "refused", 429)  # 71.25 s
    assert run.judged("answered").state is State.PASS
    end(run, "r580", "refused", 429)  # 72.5 s, after heal + 10 s
    fails(run, "r580", "no fault allows it")


def test_a_fault_allows_only_the_outcomes_it_names() -> None:
    run = healthy()
    run.plan["faults"][0]["expect"]["victims"] = "all"
    end(run, "r500", "timeout", None)
    fails(run, "r500", "fault oom#0 allows ok, refused")


def test_a_fire_that_names_no_request_hits_those_in_flight() -> None:
    run = healthy()
    run.find("fire", fault="oom").update(request=None, t_ns=61 * S + 50 * MS)  # r488 lives from 61.0 to 61.1 s
    assert run.judged("answered").state is State.PASS


def test_a_fire_may_name_the_request_by_the_servers_own_id() -> None:
    run = healthy()
    run.find("fire", fault="oom")["request"] = "s-r488"
    assert run.judged("answered").state is State.PASS


def test_a_fault_that_never_fired_excuses_nothing() -> None:
    run = healthy()
    run.tables["fire"].clear()
    run.find("fault", id="oom").update(fired=0, first_ns=None)
    fails(run, "r488", "no fault allows it")


def test_a_broken_stream_that_looks_finished_fails() -> None:
    run = healthy()
    run.plan["faults"][0]["expect"]["outcomes"] = ["truncated"]
    run.find("reply", request="r488").update(outcome="ok", http=200, finish="length", output_tokens=5)
    run.find("served", request="r488").update(outcome="ok", finish="length")
    fails(run, "r488", "was hit by oom#0 and yet looked finished")


def test_a_planned_cancel_is_allowed_and_an_unplanned_one_is_not() -> None:
    run = healthy()
    end(run, "r900", "cancelled", 200)
    run.find("request", id="r900")["cancel_at"] = "token 3"
    assert run.judged("answered").state is State.PASS
    run.find("request", id="r900")["cancel_at"] = None
    fails(run, "r900", "ended cancelled")


@pytest.mark.parametrize(("http", "state"), [(400, State.PASS), (422, State.PASS), (500, State.FAIL)])
def test_a_malformed_request_may_be_refused_but_may_break_nothing(http: int, state: State) -> None:
    run = healthy()
    end(run, "r900", "http_error", http)
    run.find("request", id="r900")["kind"] = "malformed"
    run.drop("served", request="r900")
    assert run.judged("answered").state is state


def test_two_terminal_outcomes_fail() -> None:
    run = healthy()
    run.add("reply", request="r900", outcome="ok", end_ns=113 * S)
    fails(run, "r900", "2 terminal outcomes")


def test_a_reply_nobody_asked_for_fails() -> None:
    run = healthy()
    run.add("reply", request="ghost", outcome="ok", end_ns=113 * S)
    fails(run, "ghost", "nobody sent")


def test_a_clean_200_without_finish_reason_fails() -> None:
    run = healthy()
    run.find("reply", request="r900")["finish"] = None
    fails(run, "r900", "without a finish reason")


def test_more_tokens_than_asked_for_fail() -> None:
    run = healthy()
    run.find("reply", request="r900")["output_tokens"] = 65
    run.find("served", request="r900")["tokens_out"] = 65
    fails(run, "r900", "65 tokens where at most 64")


def test_a_request_without_an_answer_after_a_normal_drain_fails() -> None:
    run = healthy()
    run.drop("reply", request="r900")
    fails(run, "r900", "ended unfinished")


@pytest.mark.parametrize("ended_by", ["signal", "died"])
def test_requests_left_open_by_a_cut_run_are_unknown_and_not_a_failure(ended_by: str) -> None:
    run = healthy()
    run.cut_at(100 * S + 50 * MS, ended_by)  # r800 was sent at 100 s
    judged = run.judged("answered")
    assert judged.state is State.UNKNOWN
    assert "unfinished when the run was cut short" in judged.summary
    assert run.verdict().exit_code == 2


def test_a_cut_run_still_fails_on_what_it_recorded() -> None:
    run = healthy()
    end(run, "r700", "inband_error", 200)
    run.cut_at(100 * S, "signal")
    fails(run, "r700", "ended inband_error")


def test_a_missing_row_in_the_servers_journal_fails() -> None:
    run = healthy()
    run.drop("served", request="r900")
    fails(run, "r900", "server's journal has no row")


def test_a_doubled_row_in_the_servers_journal_fails() -> None:
    run = healthy()
    run.add("served", request="r900", server_id="again", outcome="ok", finish="length", tokens_out=5, end_ns=114 * S)
    fails(run, "r900", "2 rows in the server's journal")


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("outcome", "cancelled", "the client saw ok, the server wrote cancelled"),
        ("finish", "stop", "the client read finish length, the server wrote stop"),
        ("tokens_out", 4, "the client counted 5 tokens, the server 4"),
    ],
)
def test_journals_that_tell_different_stories_fail(column: str, value: object, words: str) -> None:
    run = healthy()
    run.find("served", request="r900")[column] = value
    fails(run, "r900", words)


def test_a_stream_that_ends_without_the_usage_it_was_asked_for_fails_though_it_looks_finished() -> None:
    run = healthy()
    run.find("reply", request="r900").update(tokens_from="chunks", output_tokens=3, chunks=3, finish="stop")
    run.find("served", request="r900")["finish"] = "stop"
    fails(run, "r900", "ended without the usage that was asked for, after 3 events with text; the server wrote 5")


def test_tokens_that_the_client_counted_by_their_log_probabilities_are_compared() -> None:
    run = healthy()
    run.find("reply", request="r900").update(tokens_from="logprobs", output_tokens=4)
    fails(run, "r900", "the client counted 4 tokens, the server 5")


@pytest.mark.parametrize(("events", "state"), [(6, State.FAIL), (5, State.PASS), (4, State.PASS), (None, State.PASS)])
def test_more_events_with_text_than_tokens_fail_and_fewer_may_be_half_characters(
    events: int | None, state: State
) -> None:
    run = healthy()
    run.find("reply", request="r900")["chunks"] = events
    assert run.judged("answered").state is state
    if state is State.FAIL:
        fails(run, "r900", "the client read 6 events with text, the server wrote only 5 tokens")


def test_a_target_without_a_ledger_is_judged_by_the_client_alone() -> None:
    run = healthy()
    run.tables["served"].clear()
    run.plan["target"]["capabilities"] = ["pid"]
    judged = run.judged("answered")
    assert judged.state is State.PASS
    assert "only the client's record exists" in judged.summary


def test_a_run_that_sent_nothing_is_unknown() -> None:
    run = healthy()
    run.tables["request"].clear()
    run.tables["reply"].clear()
    assert run.judged("answered").state is State.UNKNOWN


def test_evidence_never_floods_but_is_counted() -> None:
    run = healthy()
    for number in range(900, 1000):
        end(run, f"r{number}", "http_error")
    judged = run.judged("answered")
    assert len(judged.evidence) == 6
    assert judged.evidence[-1].text == "and 95 more"
    assert judged.figures["breaches"] == 100


@pytest.mark.parametrize("kind", ["outcomes_lost", "spool_garbage"])
def test_what_is_absent_from_a_damaged_record_proves_nothing(kind: str) -> None:
    run = healthy()
    run.drop("served", request="r900")
    run.drop("reply", request="r901")
    run.add("event", t_ns=100 * S, proc="server", kind=kind, value=2, detail="disk")
    judged = run.judged("answered")
    assert judged.state is State.UNKNOWN
    assert "2 lines could not be written or read" in judged.summary
    run.find("reply", request="r902")["finish"] = None
    fails(run, "r902", "without a finish reason")
