"""invariants seen failing, unknown and quiet, and naming the requests of a breach as their clients know them."""

from assertions.verdict import State
from tests.assertions.recorded import S, healthy


def test_a_breach_is_told_with_the_clients_names_and_owned_by_its_requests() -> None:
    run = healthy()
    for server_id, t_ns in (("s-r900", 100 * S), ("s-r100", 101 * S)):
        detail = f"kv.tags: {server_id}: block 7 (index 0), generation; 2.5s admitted"
        run.add("event", t_ns=t_ns, proc="server", kind="invariant", detail=detail)
    judged = run.judged("invariants")
    assert judged.state is State.FAIL
    assert "the first: kv.tags: r900: block 7" in judged.summary
    assert judged.owner == "r100, r900"
    assert [each.request for each in judged.evidence] == ["r900", "r100"]


def test_a_breach_of_the_pool_names_no_request_and_is_owned_by_the_server() -> None:
    run = healthy()
    run.add("event", t_ns=100 * S, proc="server", kind="invariant", detail="kv.conservation: live=3, free=4")
    assert run.judged("invariants").owner == "server"


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

    def test_a_later_breach_is_excused_where_it_names_a_request_that_the_fault_hit(self) -> None:
        run = healthy()
        run.plan["faults"][0]["symptom"] = "event:invariant"
        hit = run.tables["fire"][0]["request"]
        run.add("event", t_ns=100 * S, proc="server", kind="invariant", detail=f"kv.tags: {hit}: block 7, content")
        assert run.judged("invariants").state is State.PASS
        assert run.judged("fired").state is State.PASS
        run.add("event", t_ns=101 * S, proc="server", kind="invariant", detail="kv.tags: s-r1: block 7, content")
        assert run.judged("invariants").state is State.FAIL

    def test_a_silent_server_is_unknown(self) -> None:
        run = healthy()
        run.tables["served"].clear()
        run.tables["audit"].clear()
        assert run.judged("invariants").state is State.UNKNOWN
