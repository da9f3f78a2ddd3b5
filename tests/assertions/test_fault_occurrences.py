"""One occurrence of a fault is judged whole, whatever restarts lie in it."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from assertions.verdict import State
from tests.assertions.recorded import Recorded, S, healthy

RESTARTS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=5)


def armed(
    run: Recorded, at_s: int, *, persist: bool, first_s: int | None = None, heal_s: int | None = None, **more: Any
):
    row = {"id": "f", "n": 0, "spec": json.dumps({"do": "kv.take: oom", "persist": persist}), "fired_min": 1}
    stamps = {"arm_ns": at_s * S, "first_ns": None if first_s is None else first_s * S}
    stamps["heal_ns"] = None if heal_s is None else heal_s * S
    return run.add("fault", **row, **stamps, **more)


def restart(run: Recorded, at_s: int) -> None:
    run.add("event", t_ns=at_s * S, proc="server", kind="exit", value=-9, detail="pid 1")
    run.add("event", t_ns=at_s * S + S // 2, proc="server", kind="start", value=1, detail="pid 2")


@given(RESTARTS)
def test_over_any_restarts_counts_add_up_and_time_runs_from_the_first_arming_to_the_last_heal(
    lives: list[tuple[int, int]],
) -> None:
    run, at_s = Recorded(), 10
    for number, (length_s, fired) in enumerate(lives):
        last = number == len(lives) - 1
        first_s = at_s + 1 if fired else None
        heal_s = at_s + length_s + 1 if last else None
        armed(run, at_s, persist=True, first_s=first_s, heal_s=heal_s, hits=fired + 1, fired=fired, state="fired")
        at_s += length_s + 2
        if not last:
            restart(run, at_s - 1)
    (row,) = run.history().faults
    assert (row.arm_ns, row.heal_ns) == (10 * S, (at_s - 1) * S)
    assert (row.hits, row.fired) == (sum(n + 1 for _, n in lives), sum(n for _, n in lives))
    firsts = [start for start, (_, fired) in zip(_starts(lives), lives, strict=True) if fired]
    assert row.first_ns == (min(firsts) + 1) * S if firsts else row.first_ns is None


def _starts(lives: list[tuple[int, int]]) -> list[int]:
    found = [10]
    for length_s, _ in lives:
        found.append(found[-1] + length_s + 2)
    return found[:-1]


def test_a_later_state_of_one_arming_replaces_the_earlier_one_and_is_not_added_to_it() -> None:
    run = Recorded()
    armed(run, 10, persist=True, hits=2, fired=1, state="fired", first_s=11)
    armed(run, 10, persist=True, hits=5, fired=3, state="healed", first_s=11, heal_s=20)
    (row,) = run.history().faults
    assert (row.hits, row.fired, row.state) == (5, 3, "healed")


def test_what_does_not_persist_is_healed_by_the_restart_and_what_persists_is_not() -> None:
    for persist, healed in ((False, (30 * S, "restart")), (True, (None, None))):
        run = Recorded()
        armed(run, 10, persist=persist, first_s=11, fired=1, hits=1, state="fired")
        restart(run, 30)
        (row,) = run.history().faults
        assert (row.heal_ns, row.healed_by) == healed


def test_a_death_after_which_nothing_was_started_heals_nothing() -> None:
    run = Recorded()
    run.add("event", t_ns=0, proc="server", kind="start", value=0, detail="pid 1")
    armed(run, 10, persist=False, first_s=11, fired=1, hits=1, state="fired")
    run.add("event", t_ns=30 * S, proc="server", kind="exit", value=-9, detail="pid 1")
    assert run.history().faults[0].heal_ns is None


def test_a_refusal_before_the_restart_is_allowed_by_the_fault_that_was_armed_again_after_it() -> None:
    """The row of the new process alone would say that nothing was armed when r488 was refused."""
    run = healthy()
    run.find("fault", id="oom").update(heal_ns=None, healed_by=None, state="fired")
    run.add(
        "fault", id="oom", n=0, spec=json.dumps({"persist": True}), arm_ns=66 * S, first_ns=67 * S, heal_ns=70 * S,
        healed_by="harness", hits=1, fired=1, fired_min=1, state="healed",
    )  # fmt: skip
    assert run.judged("answered").state is State.PASS
    assert run.judged("recovery").state is State.PASS


def test_hits_are_never_fewer_than_fires_of_which_a_killed_process_left_the_rows() -> None:
    run = Recorded()
    armed(run, 10, persist=True, first_s=11, hits=1, fired=1, state="fired")
    for at_s in range(11, 20):
        run.add("fire", fault="f", n=0, t_ns=at_s * S, hit=at_s - 10, point="kv.take", proof="called")
    (row,) = run.history().faults
    assert (row.hits, row.fired) == (9, 9)
