import itertools

import pytest

from faults import State, resolve
from faults.fault_instance import CAN_FIRE, NEXT, OVER, FaultInstance
from faults.trigger import KEYS_MAX, Trigger
from tests.faults.stage import catalogue, spec


def instance() -> FaultInstance:
    (resolved,) = resolve([spec("kv.take: oom")], catalogue())
    return FaultInstance(resolved)


def reach(state: State) -> FaultInstance:
    """A instance brought to that state by the only ways there are."""
    made = instance()
    if state is State.SETUP:
        return made
    made.arm(0)
    if state is State.ARMED:
        return made
    if state is State.INVALID:
        made.invalidate("broke")
        return made
    made.note_fire(0)
    if state is State.FIRED:
        return made
    made.begin_healing("times")
    if state is State.HEALING:
        return made
    made.finish_healing(0)
    if state is State.CLEANED:
        made.clean()
    return made


def test_every_state_is_reached_and_named() -> None:
    assert [reach(state).state for state in State] == list(State)


def test_only_cleanup_leaves_invalid_and_nothing_leaves_cleaned() -> None:
    assert NEXT[State.INVALID] == {State.CLEANED}
    assert NEXT[State.CLEANED] == set()
    assert all(State.INVALID in NEXT[state] for state in State if state not in (State.INVALID, State.CLEANED))


MOVES = {
    State.ARMED: lambda made: made.arm(0),
    State.HEALED: lambda made: made.finish_healing(0),
    State.INVALID: lambda made: made.invalidate("broke"),
    State.CLEANED: lambda made: made.clean(),
}


@pytest.mark.parametrize(("start", "to"), list(itertools.product(State, MOVES)))
def test_a_move_that_the_picture_does_not_show_is_our_own_mistake(start: State, to: State) -> None:
    made = reach(start)
    if to in NEXT[start] or start is to is State.INVALID:
        MOVES[to](made)
        assert made.state is to
    else:
        with pytest.raises(AssertionError, match=rf"fault f/0 can't go from {start} to {to}"):
            MOVES[to](made)


def test_the_first_reason_of_an_invalid_fault_stays() -> None:
    made = reach(State.INVALID)
    made.invalidate("and then this")
    assert made.error == "broke"


def test_a_healed_fault_keeps_its_totals_and_no_keys() -> None:
    made = instance()
    made.arm(0)
    made.trigger.count("r1")
    made.begin_healing("harness")
    made.finish_healing(0)
    assert (made.trigger.hits, made.trigger._by_key) == (1, {})


def test_a_fault_can_fire_or_is_over_but_never_both() -> None:
    assert set(CAN_FIRE) == {State.ARMED, State.FIRED}
    assert set(OVER) == {State.HEALED, State.INVALID, State.CLEANED}


def test_the_memory_of_keys_is_bounded_and_given_back() -> None:
    trigger = Trigger(spec("kv.take: oom", skip=5))
    assert [trigger.count("old") for _ in range(3)] == [1, 2, 3]
    for number in range(KEYS_MAX - 1):
        trigger.count(str(number))
    assert trigger.count("old") == 4  # crossed again, so the eldest is now "0"
    trigger.count("one more")
    assert trigger.count("5") == 2
    assert trigger.count("1") == 2
    assert trigger.count("0") == 1
    assert len(trigger._by_key) == KEYS_MAX
    trigger.forget_keys()
    assert (len(trigger._by_key), trigger.hits) == (0, KEYS_MAX + 7)
