"""hang_ups, seen failing on each way in which a server goes on for a client that has left."""

import pytest

from assertions.verdict import Judged, State
from tests.assertions.recorded import MS, Recorded, S, foreign, healthy, need_of


def leave(
    run: Recorded, request: str, after_ns: int = 30 * MS, read: int = 3, outcome: str = "cancelled", tokens: int = 4
) -> int:
    """The client of a healthy request leaves early, and a healthy server ends it at once. Returns the time."""
    sent_ns: int = run.find("request", id=request)["sent_ns"]
    t_ns = sent_ns + after_ns
    run.find("request", id=request)["cancel_at"] = "token 3" if outcome == "cancelled" else None
    run.find("reply", request=request).update(
        outcome=outcome, http=200, finish=None, cancel_ns=t_ns, end_ns=t_ns, chunks=read, output_tokens=None
    )
    if run.tables["served"]:
        run.find("served", request=request).update(
            outcome="cancelled", finish=None, tokens_out=tokens, end_ns=t_ns + 3 * MS
        )
        run.add(
            "hang_up", request=request, server_id=f"s-{request}", proc="server", t_ns=t_ns + MS, why="client_gone",
            tokens_seen=tokens, end_ns=t_ns + 2 * MS, outcome="cancelled", tokens=tokens,
        )  # fmt: skip
    return t_ns


def leaving(count: int = 20) -> Recorded:
    """A healthy run in which so many clients left."""
    run = healthy()
    for number in range(900, 900 + count):
        leave(run, f"r{number}")
    return run


def to_its_end(run: Recorded, request: str, after_ns: int, *, seen: bool) -> None:
    """The engine generated this answer to its end, so long after its client had left."""
    end_ns = run.find("reply", request=request)["cancel_ns"] + after_ns
    run.find("served", request=request).update(outcome="cancelled" if seen else "ok", end_ns=end_ns, tokens_out=64)
    run.find("hang_up", request=request).update(outcome="ok", t_ns=end_ns, end_ns=end_ns, tokens=64, tokens_seen=64)
    if not seen:
        run.drop("hang_up", request=request)


def fails(run: Recorded, request: str, words: str) -> Judged:
    judged = run.judged("hang_ups")
    assert judged.state is State.FAIL, judged.summary
    assert [e for e in judged.evidence if e.request == request and words in e.text], judged.evidence
    return judged


def test_hang_ups_that_ended_their_requests_pass_with_their_figures() -> None:
    judged = leaving().judged("hang_ups")
    assert judged.state is State.PASS, judged.summary
    assert judged.figures["left"] == judged.figures["known"] == 20
    assert judged.figures["after_s_max"] == pytest.approx(0.002)
    assert judged.figures["unread"] == 20
    assert run_passes(leaving())


def run_passes(run: Recorded) -> bool:
    return run.judged("answered").state is State.PASS


def test_an_ok_that_was_whole_before_the_client_left_is_true() -> None:
    run = leaving()
    to_its_end(run, "r900", -5 * MS, seen=False)
    to_its_end(run, "r901", 40 * MS, seen=False)  # it was on its way
    assert run.judged("hang_ups").state is State.PASS
    assert run_passes(run)


def test_a_single_request_that_goes_on_beyond_the_limit_fails_with_its_time_and_tokens() -> None:
    run = leaving()
    to_its_end(run, "r903", 3 * S, seen=False)
    judged = fails(
        run, "r903", "its answer was generated to its end (64 tokens) 3.000 s after its client had left; the"
    )
    assert judged.owner == "r903" and judged.since_ns == run.find("reply", request="r903")["cancel_ns"]


@pytest.mark.parametrize("seen", [True, False])
def test_a_server_that_never_looks_or_looks_at_the_end_fails_by_the_share_though_each_request_was_short(
    seen: bool,
) -> None:
    run = leaving()
    for number in range(900, 911):
        to_its_end(run, f"r{number}", 80 * MS, seen=seen)
    fails(
        run, "r900", "11 of 20 answers were generated to their end after their clients had left: 671 tokens for nobody"
    )
    to_its_end_of_half = leaving()
    for number in range(900, 910):
        to_its_end(to_its_end_of_half, f"r{number}", 80 * MS, seen=seen)
    assert to_its_end_of_half.judged("hang_ups").state is State.PASS


def test_in_virtual_time_one_answer_that_was_generated_to_its_end_is_enough() -> None:
    run = leaving()
    run.plan["scenario"]["drive"] = "virtual"
    assert run.judged("hang_ups").state is State.PASS
    to_its_end(run, "r900", MS, seen=True)
    fails(run, "r900", "generated to its end (64 tokens) 0.001 s after its client had left; the server saw it 0.001 s")


def test_tokens_after_the_server_saw_it_are_held_to_the_limit() -> None:
    run = leaving()
    run.find("hang_up", request="r905").update(tokens_seen=4, tokens=8)
    assert run.judged("hang_ups").state is State.PASS
    run.find("hang_up", request="r905").update(tokens=9)
    fails(run, "r905", "5 tokens were generated after the server saw that its client had left, 4 may be")
    run.plan["scenario"]["hang_up"] = {"tokens": 5, "within": 2.0}
    assert run.judged("hang_ups").state is State.PASS


def test_a_request_that_leaves_the_engine_late_fails_unless_a_fault_held_it() -> None:
    run = leaving()
    leave(run, "r490")  # inside the window of the fault
    for request in ("r490", "r950"):
        if request == "r950":
            leave(run, request)
        hang_up = run.find("hang_up", request=request)
        hang_up["end_ns"] = run.find("reply", request=request)["cancel_ns"] + 2500 * MS
        if request == "r490":
            assert run.judged("hang_ups").state is State.PASS
    fails(run, "r950", "it was ended 2.500 s after its client had left (seen 0.001 s late)")
    run.plan["scenario"]["hang_up"] = {"tokens": 4, "within": 3.0}
    assert run.judged("hang_ups").state is State.PASS


def test_ok_written_for_a_client_that_the_server_saw_leave_is_a_lie() -> None:
    run = leaving()
    run.find("served", request="r907").update(outcome="ok", finish="length")
    fails(run, "r907", "the server saw the client leave (client_gone) and wrote ok")


def test_a_client_that_gave_up_by_its_own_timeout_has_left_too() -> None:
    run = healthy()
    for number in range(900, 912):
        leave(run, f"r{number}", outcome="timeout")
    assert run.judged("hang_ups").state is State.PASS
    to_its_end(run, "r905", 5 * S, seen=False)
    fails(run, "r905", "5.000 s after its client had left; the server never saw it")


def test_rows_that_are_absent_prove_nothing_and_nobody_who_left_is_not_judged() -> None:
    run = leaving(3)
    for number in range(900, 903):
        run.drop("served", request=f"r{number}")
        run.drop("hang_up", request=f"r{number}")
    assert run.judged("hang_ups").state is State.UNKNOWN
    run = healthy()
    assert run.judged("hang_ups").state is State.NOT_JUDGED
    run.plan["scenario"]["load"][0]["cancel"] = [{"share": 0.5, "at": "queued"}]
    assert run.judged("hang_ups").state is State.UNKNOWN


def test_the_plan_tells_the_limits_where_clients_are_planned_to_leave() -> None:
    run = healthy()
    assert need_of(run, "hang_ups").note is None
    run.plan["scenario"]["load"][0]["cancel"] = [{"share": 0.5, "at": "queued"}]
    run.plan["scenario"]["hang_up"] = {"tokens": 7, "within": 1.5}
    assert need_of(run, "hang_ups").note == (
        "up to 50% of a load hangs up; the server has 1.5 s and at most 7 tokens after it is seen"
    )


# -- a target without a journal ---------------------------------------------------------------------------------------


def outside(count: int = 40) -> Recorded:
    """A stock server with metrics, whose clients left early in these requests."""
    run = foreign()
    for number in range(900, 900 + count):
        leave(run, f"r{number}", read=3)
    lives = [
        (request["sent_ns"], reply["end_ns"])
        for request, reply in zip(run.tables["request"], run.tables["reply"], strict=True)
    ]
    running = [(s * S, float(sum(sent <= s * S < end for sent, end in lives))) for s in range(1, 190)]
    run.series("server.running", running)
    ok = [reply for reply in run.tables["reply"] if reply["outcome"] == "ok"]
    made = [(s * S, sum(5.0 for each in ok if each["end_ns"] <= s * S) + 4.0 * count * (s > 150)) for s in range(190)]
    run.series("server.generation_tokens", made)
    return run


def test_a_stock_server_that_ends_what_clients_ended_passes_by_its_gauges_and_tokens() -> None:
    judged = outside().judged("hang_ups")
    assert judged.state is State.PASS, judged.summary
    assert judged.figures["too_many_max"] == 0
    assert "40 clients left" in judged.summary


def test_a_stock_server_that_keeps_running_for_clients_that_left_is_seen_by_its_gauges() -> None:
    run = outside()
    series = next(row["id"] for row in run.tables["series"] if row["name"] == "server.running")
    for row in run.tables["sample"]:
        if row["series"] == series and 125 * S <= row["t_ns"] <= 130 * S:
            row["value"] += 30
    judged = run.judged("hang_ups")
    assert judged.state is State.FAIL
    assert "requests where clients have" in judged.summary
    assert judged.since_ns == 125 * S


def test_a_stock_server_that_generates_on_for_clients_that_left_is_seen_by_its_tokens() -> None:
    run = outside()
    series = next(row["id"] for row in run.tables["series"] if row["name"] == "server.generation_tokens")
    for row in run.tables["sample"]:
        if row["series"] == series and row["t_ns"] > 120 * S:
            row["value"] += 60.0 * 40
    judged = run.judged("hang_ups")
    assert judged.state is State.FAIL
    assert "most were generated for nobody" in judged.summary


def test_a_stock_server_without_a_page_of_metrics_is_not_judged() -> None:
    run = outside()
    run.plan["target"]["capabilities"] = ["pid"]
    assert run.judged("hang_ups").state is State.NOT_JUDGED
    assert need_of(run, "hang_ups").because == "the target shows neither a journal nor metrics"
    run.plan["target"]["capabilities"] = ["pid", "metrics"]
    run.tables["series"].clear()
    assert run.judged("hang_ups").state is State.UNKNOWN
