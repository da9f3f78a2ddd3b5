"""Who goes first, who makes way, and that nobody waits for ever."""

import hypothesis.strategies as st
from hypothesis import given

from runtime.core.messages import Submit
from runtime.core.work import Sampling
from runtime.memory.kv.tags import SequenceTable
from runtime.scheduling.peak import peak_blocks
from runtime.scheduling.rank import rank_of
from runtime.scheduling.request import Request
from runtime.scheduling.scheduler import Limits
from runtime.scheduling.victims import last_behind, select_victims
from tests.runtime.fakes import Bench, expected_tokens

AGEING_S = 10.0


def bench_of(blocks: int = 64, host_blocks: int = 0, **limits: float) -> Bench:
    given: dict[str, float] = {"token_budget": 64, "seqs_max": 2, "waiting_max": 64, "ageing_s": AGEING_S} | limits
    return Bench(blocks, Limits(**given), host_blocks=host_blocks)  # type: ignore[arg-type]


def queue(bench: Bench) -> list[str]:
    return [one.id for one in bench.engine.scheduler.waiting]


def running(bench: Bench) -> list[str]:
    return [one.id for one in bench.engine.scheduler.running]


def test_higher_priority_goes_first_and_equals_by_arrival():
    bench = bench_of()
    for _ in range(2):
        bench.submit([1], max_tokens=50)
    bench.turn()
    low, high, same, high_too = (bench.submit([1], priority=priority) for priority in (0, 2, 0, 2))
    bench.engine.step()
    assert queue(bench) == [high, high_too, low, same]


def test_who_has_waited_a_level_longer_goes_before_a_fresh_one_of_the_level_above():
    bench = bench_of(quantum=10**6)
    for _ in range(2):
        bench.submit([1], max_tokens=50, priority=9)
    bench.turn()
    old = bench.submit([1])
    bench.turn()
    bench.clock.advance(AGEING_S * 0.9)
    overtakes = bench.submit([1], priority=1)
    bench.turn()
    bench.clock.advance(AGEING_S * 0.2)
    too_late = bench.submit([1], priority=1)
    bench.turn()
    assert queue(bench) == [overtakes, old, too_late]


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(-3, 3)), min_size=2, max_size=20))
def test_nobody_is_overtaken_by_what_comes_later_than_its_head_start(arrivals: list[tuple[int, int]]):
    arrivals = sorted(arrivals, key=lambda one: one[0])
    ranked = [
        (rank_of(second * 10**9, seq, priority, AGEING_S), second, priority)
        for seq, (second, priority) in enumerate(arrivals)
    ]
    order = sorted(ranked)
    for place, (_, second, priority) in enumerate(order):
        for _, other_second, other_priority in order[:place]:
            assert other_second <= second + (other_priority - priority) * AGEING_S


def test_a_stream_of_high_priority_does_not_starve_a_low_one():
    bench = bench_of(seqs_max=1, quantum=1)
    low = bench.submit([1, 2, 3], max_tokens=6)
    for _ in range(200):
        if low in bench.sink.ended:
            break
        bench.submit([5], max_tokens=4, priority=1)
        bench.turn(seconds=1.0)
    assert bench.sink.ended[low].end.outcome == "ok"
    assert bench.sink.tokens[low] == expected_tokens([1, 2, 3], 6)


def test_one_of_higher_priority_takes_a_seat_and_the_other_comes_back_to_its_place():
    bench = bench_of(quantum=2, host_blocks=16)
    first, second = (bench.submit([n, 2, 3], max_tokens=20) for n in range(2))
    for _ in range(4):
        bench.turn()
    third = bench.submit([7])
    urgent = bench.submit([9, 9], max_tokens=3, priority=1)
    for _ in range(3):
        bench.turn()
    assert running(bench)[0] == urgent
    assert queue(bench) == [second, third]
    bench.run()
    for name, prompt, count in ((first, [0, 2, 3], 20), (second, [1, 2, 3], 20), (urgent, [9, 9], 3)):
        assert bench.sink.tokens[name] == expected_tokens(prompt, count)
    assert [bench.sink.ended[name].preempted for name in (first, second, third, urgent)] == [0, 1, 0, 0]
    assert bench.leftovers() == []


def test_equal_priority_never_takes_a_seat():
    bench = bench_of(quantum=1)
    for _ in range(2):
        bench.submit([1], max_tokens=20, priority=1)
    for _ in range(4):
        bench.turn()
    bench.submit([1], priority=1)
    bench.run()
    assert bench.env.counters.total["kv.preempt"] == 0


def test_nobody_leaves_before_its_quantum_is_done():
    bench = bench_of(quantum=6)
    victims = [bench.submit([1], max_tokens=20) for _ in range(2)]
    bench.turn()
    bench.submit([1], priority=1)
    for _ in range(4):
        bench.turn()
    assert bench.env.counters.total["kv.preempt"] == 0
    bench.run()
    assert sum(bench.sink.ended[name].preempted for name in victims) == 1


def made(seq: int, priority: int, weight: int, launches: int = 9) -> Request:
    """`weight` plays the room that it gives back."""
    submit = Submit(f"r{seq}", (1,) * weight, 1, Sampling(), 0, 10**18, priority=priority)
    request = Request(submit, seq, SequenceTable(4), rank=rank_of(0, seq, priority, AGEING_S))
    request.launches = launches
    return request


runs = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 12)), max_size=8)


@given(runs, st.integers(0, 3), st.integers(0, 40))
def test_those_who_make_way_are_below_done_with_their_quantum_and_not_one_too_many(
    drawn: list[tuple[int, int, int]], priority: int, need: int
):
    here = sorted((made(seq, *one) for seq, one in enumerate(drawn)), key=lambda one: one.rank)
    head = made(99, priority, 1)

    def enough(leaving: object) -> bool:
        return sum(len(one.submit.prompt) for one in leaving) >= need  # type: ignore[attr-defined]

    gone = select_victims(head, here, 5, enough)
    able = [one for one in here if one.submit.priority < priority and one.rank > head.rank and one.launches >= 5]
    assert all(one in able for one in gone)
    if not enough(able):
        assert gone == []
    elif need > 0:
        assert enough(gone)
        assert all(not enough([other for other in gone if other is not one]) for one in gone)
    else:
        assert gone == []


@given(runs, st.integers(0, 8), st.data())
def test_the_last_behind_is_never_before_who_asks_and_never_planned(
    drawn: list[tuple[int, int, int]], asking: int, data: st.DataObject
):
    here = sorted((made(seq, *one) for seq, one in enumerate(drawn)), key=lambda one: one.rank)
    planned = [one for one in here if data.draw(st.booleans())]
    rank = made(asking, 1, 1).rank
    found = last_behind(here, rank, planned)
    able = [one for one in here if one.rank >= rank and one not in planned]
    assert found is (able[-1] if able else None)


lives = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=8)


@given(lives, st.integers(1, 8))
def test_the_peak_is_what_stepping_through_all_lives_shows(drawn: list[tuple[int, int]], block_tokens: int):
    def held(step: int) -> int:
        return sum(-(-(now + step) // block_tokens) for now, to_come in drawn if step <= to_come)

    shown = max(held(step) for step in range(61))
    found = peak_blocks(drawn, block_tokens)
    assert shown <= found <= shown + len(drawn), "at most one part-full block each too many"


def test_who_would_not_fit_at_the_peak_is_not_let_in_and_nobody_is_preempted():
    greedy, careful = (bench_of(blocks=8, seqs_max=4, expected_output=share, waiting_max=8) for share in (0.0, 1.0))
    for bench in (greedy, careful):
        names = [bench.submit([n] * 6, max_tokens=14) for n in range(3)]
        bench.run()
        for n, name in enumerate(names):
            assert bench.sink.tokens[name] == expected_tokens([n] * 6, 14)
    assert greedy.env.counters.total["kv.preempt"] >= 1
    assert careful.env.counters.total["kv.preempt"] == 0
