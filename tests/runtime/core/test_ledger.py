import threading

import pytest

from runtime.core.ledger import Ledger, Limbo
from runtime.core.messages import Call, Cancel, Mailbox, Submit
from runtime.core.ports import Ticket
from runtime.core.work import Sampling


def ticket(seq: int = 0) -> Ticket:
    return Ticket(seq, None, 0)  # type: ignore[arg-type]


def test_limbo_goes_back_in_order_once_its_own_ticket_is_done_and_not_another():
    ledger, back = Ledger(), []
    first, second = ticket(1), ticket(2)
    ledger.defer(Limbo("a", "kv", [1], first, 0, back.extend))
    ledger.defer(Limbo("b", "kv", [2], second, 0, back.extend))
    second.done_ns = 5
    ledger.complete(second)
    assert ledger.settle() == [second]
    assert (back, ledger.in_limbo("kv")) == ([2], 1)
    first.done_ns = 6
    ledger.complete(first)
    ledger.settle()
    assert (back, ledger.in_limbo("kv")) == ([2, 1], 0)


def test_double_free_is_refused_by_name_and_changes_nothing():
    ledger = Ledger()
    ledger.acquire("kv", "a", [1, 2])
    ledger.release("kv", "a", [1])
    with pytest.raises(KeyError, match="a gives back kv 1, which it does not hold"):
        ledger.release("kv", "a", [2, 1])
    assert ledger.held("kv", "a") == [2]
    assert ledger.live("kv") == 1


def test_histories_of_the_owners_that_ended_last_are_kept_and_those_of_leaking_owners_for_ever():
    ledger = Ledger()
    ledger.acquire("kv", "leaky", [1])
    for owner in ("leaky", *map(str, range(600))):
        ledger.note(owner, 2_000_000_000, "ended ok")
        ledger.forget(owner)
    assert (ledger.history("0"), ledger.history("599")) == ("", "2.000s ended ok")
    assert ledger.history("leaky") == "2.000s ended ok"


def test_the_last_owner_of_an_item_is_known_after_its_release():
    ledger = Ledger()
    ledger.acquire("kv", "a", [1, 2])
    ledger.release("kv", "a", [1, 2])
    ledger.acquire("kv", "b", [2])
    assert [ledger.last_owner("kv", item) for item in (1, 2, 3)] == ["a", "b", ""]


def test_completion_from_another_thread_wakes_who_waits_on_the_mailbox():
    mailbox = Mailbox(1)
    ledger = Ledger(mailbox.wake)
    worker = threading.Thread(target=ledger.complete, args=[ticket()])
    worker.start()
    mailbox.wait(timeout_s=10)
    worker.join()
    assert len(ledger.settle()) == 1


def test_full_mailbox_refuses_submits_and_still_takes_cancels_and_calls():
    mailbox = Mailbox(1)
    submit = Submit("a", (1,), 1, Sampling(), 0, 1)
    assert mailbox.offer(submit)
    assert not mailbox.offer(submit)
    mailbox.post(Cancel("a"))
    mailbox.post(Call(lambda: None))
    assert len(mailbox.take()) == 3
    assert mailbox.offer(submit)


def test_an_item_that_comes_twice_at_once_is_held_twice():
    ledger = Ledger()
    assert not ledger.acquire("kv", "a", [1, 2, 1])
    assert dict(ledger.holders("kv")) == {1: 2, 2: 1}
    assert ledger.release("kv", "a", [1]) == []
    assert ledger.release("kv", "a", [2, 1]) == [2, 1]
    assert ledger.live("kv") == 0
