import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.device.virtual_time import VirtualTime


@given(st.lists(st.tuples(st.integers(0, 50), st.lists(st.integers(0, 20), max_size=3)), max_size=30))
def test_things_happen_in_order_of_time_then_of_planning_and_the_clock_never_goes_back(plan):
    time, seen, planned = VirtualTime(), [], []

    def at(t_ns: int, later: list[int]) -> None:
        name = len(planned)
        planned.append(t_ns)

        def happen() -> None:
            seen.append((time.now_ns(), name))
            for delay in later:
                at(time.now_ns() + delay, [])

        time.at(t_ns, happen)

    for t_ns, later in plan:
        at(t_ns, later)
    while time.next_ns is not None:
        time.step()
    assert seen == sorted(seen)
    assert [planned[name] for _, name in seen] == [t_ns for t_ns, _ in seen]
    assert len(seen) == len(planned)


def test_neither_the_past_nor_a_jump_over_something_planned_is_possible():
    time = VirtualTime()
    time.jump(10)
    time.at(20, lambda: None)
    with pytest.raises(AssertionError, match="9 ns is in the past"):
        time.at(9, lambda: None)
    with pytest.raises(AssertionError, match="goes back"):
        time.jump(9)
    with pytest.raises(AssertionError, match="would be missed"):
        time.jump(21)
    time.jump(20)
    assert time.now_ns() == 20
