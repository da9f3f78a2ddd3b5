"""Every pair of outcomes has a rule, and the judge acts on each."""

import itertools

import pytest

from assertions.context import JudgeContext
from assertions.judges import answered
from assertions.outcome_pairs import RULES, Rule, rule_of
from assertions.verdict import State
from harness.load.outcome import Outcome
from runtime.server.request import OUTCOMES
from tests.assertions.recorded import MS, S, healthy

PAIRS = list(itertools.product([str(word) for word in Outcome], OUTCOMES))


def test_the_table_has_exactly_the_pairs_of_both_enumerations() -> None:
    assert sorted(RULES) == sorted(PAIRS)


def test_two_words_for_the_same_agree_and_only_a_good_answer_is_good_for_both() -> None:
    assert {client for client, server in PAIRS if rule_of(client, server) is Rule.SAME and server == client} >= {
        "ok", "http_error", "inband_error", "timeout", "cancelled", "refused",
    }  # fmt: skip
    for client, server in PAIRS:
        if (client == "ok") != (server == "ok"):
            assert rule_of(client, server) not in (Rule.SAME, Rule.AGREE), (client, server)


def said(*, hung_up: bool) -> dict[tuple[str, str], list[str]]:
    """What the judge finds in a run in which each pair happened to one request; the clients hung up, or did not."""
    run = healthy()
    for number, (client, server) in enumerate(PAIRS, 900):
        reply, served = run.find("reply", request=f"r{number}"), run.find("served", request=f"r{number}")
        reply.update(outcome=client, finish="length" if client == "ok" else None)
        reply["cancel_ns"] = reply["end_ns"] if hung_up else None
        served.update(outcome=server, finish="length" if server == "ok" else None)
    with run.history() as history:
        found = list(answered._journal(JudgeContext(history, run.plan_view())))
    return {pair: [each.text for each in found if each.request == f"r{n}"] for n, pair in enumerate(PAIRS, 900)}


@pytest.mark.parametrize("hung_up", [True, False])
def test_the_judge_carries_out_the_rule_of_every_pair(hung_up: bool) -> None:
    lies = {Rule.LIE, Rule.BROKEN} | (set() if hung_up else {Rule.LEFT_ONLY})
    for (client, server), found in said(hung_up=hung_up).items():
        if rule_of(client, server) in lies:
            assert [text.partition(":")[0] for text in found] == [f"the client saw {client}, the server wrote {server}"]
        else:
            assert found == [], (client, server)


def test_a_part_of_a_whole_answer_is_no_lie_of_a_server_that_died_at_that_time() -> None:
    run = healthy()
    run.plan["faults"][0]["expect"].update(victims="all", outcomes=["truncated", "refused", "ok"])
    run.find("reply", request="r490").update(outcome="truncated", finish=None)
    assert run.judged("answered").state is State.FAIL
    run.add("event", t_ns=490 * S // 8 + 50 * MS, proc="server", kind="exit", value=-9, detail="")
    assert run.judged("answered").state is State.PASS
