"""Blame: a fault is named where a recorded link leads from it to what broke, and nowhere else."""

import pytest

from assertions.blame import NO_FAULT
from assertions.context import JudgeContext
from tests.assertions.recorded import MS, Recorded, S, healthy


def blamed(run: Recorded, request: str, t_ns: int, *, values: bool = False) -> str | None:
    return JudgeContext(run.history(), run.plan_view()).blame.of_request(request, t_ns, values=values)


@pytest.mark.parametrize("values", [False, True])
def test_a_request_that_a_fire_names_was_hit_by_either_of_its_names(values: bool) -> None:
    run = healthy()
    assert blamed(run, "r488", 61 * S, values=values) == "oom#0, which hit r488"
    assert blamed(run, "s-r488", 61 * S, values=values) == "oom#0, which hit r488"


def test_a_breach_seen_before_the_fire_is_not_of_this_fault() -> None:
    run = healthy()
    run.find("reply", request="r488")["end_ns"] = 61 * S - MS
    assert blamed(run, "r488", 60 * S, values=True) == NO_FAULT


def test_an_active_fault_that_names_another_request_explains_waiting_and_no_wrong_values() -> None:
    run = healthy()
    assert blamed(run, "r489", 61 * S) == "oom#0, which was active while r489 was in flight"
    assert blamed(run, "r489", 61 * S, values=True) == NO_FAULT


def test_a_fire_without_a_name_reaches_who_was_in_flight_in_its_group() -> None:
    run = healthy()
    run.tables["fire"][0].update(request=None, t_ns=run.find("request", id="r489")["sent_ns"] + MS)
    assert blamed(run, "r489", 61 * S, values=True) == "oom#0, which fired while r489 was in flight"
    run.tables["fire"][0]["grp"] = "other"
    assert blamed(run, "r489", 61 * S, values=True) == NO_FAULT


def test_damage_travels_by_a_block_that_both_have_held() -> None:
    run = healthy()
    for name in ("r488", "r600"):
        detail = f"kv.tags: s-{name}: block 7 (index 0), content"
        run.add("event", t_ns=75 * S, proc="server", kind="invariant", detail=detail)
    assert blamed(run, "r600", 75 * S, values=True) == "oom#0, which hit r488; both held block 7"
    assert blamed(run, "r601", 75 * S, values=True) == NO_FAULT


def test_damage_travels_by_the_prefix_cache_to_who_read_it_later() -> None:
    run = healthy()
    run.find("served", request="r600")["tokens_cached"] = 16
    assert blamed(run, "r600", 75 * S, values=True) == "oom#0, which hit r488; r600 read cached blocks"
    run.find("served", request="r100")["tokens_cached"] = 16
    assert blamed(run, "r100", 12 * S, values=True) == NO_FAULT, "it ended before the fault"


def test_what_nobody_owns_is_of_the_fault_in_whose_window_it_began() -> None:
    run = healthy()
    blame = JudgeContext(run.history(), run.plan_view()).blame
    assert [blame.at(t_s * S) for t_s in (50, 60.9, 61, 73, 100)] == [NO_FAULT, NO_FAULT, "oom#0", "oom#0", NO_FAULT]
    assert blame.at(100 * S, since_ns=70 * S) == "oom#0"


def test_a_run_without_faults_names_none() -> None:
    run = healthy()
    run.tables["fault"].clear()
    assert blamed(run, "r488", 61 * S) is None
