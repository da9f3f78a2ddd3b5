"""Preemption by swap: KV goes to the host and comes back, and whatever goes wrong on the way costs time, not tokens."""

import pytest

from faults import FaultSpec, When, parse_do
from faults.spec import Scope
from runtime.core.errors import DeviceLost, LaunchError
from runtime.core.messages import Cancel
from runtime.core.owner import Owner
from runtime.scheduling.preemption import Mode
from runtime.scheduling.scheduler import Limits
from tests.runtime.fakes import Bench, expected_tokens

FIRST, SECOND = list(range(8)), list(range(50, 58))


def bench_of(mode: Mode = Mode.SWAP, host_blocks: int = 16, **options: object) -> Bench:
    limits = Limits(token_budget=32, seqs_max=4, waiting_max=8, expected_output=0.0, preemption=mode)
    return Bench(blocks=6, limits=limits, host_blocks=host_blocks, **options)  # type: ignore[arg-type]


def two(bench: Bench, deadline_s: float = 1000.0) -> tuple[str, str]:
    """Two requests of which one must give way to the other before they end."""
    return bench.submit(FIRST, max_tokens=10), bench.submit(SECOND, max_tokens=10, deadline_s=deadline_s)


def until_swapped(bench: Bench) -> None:
    """Step until a copy is in flight; it and the launch beside it are left there."""
    for _ in range(50):
        bench.engine.step()
        if bench.device.copies:
            return
        bench.clock.advance(0.01)
        bench.device.complete()
    raise AssertionError("nobody was swapped")


def healthy(bench: Bench, *names: str) -> None:
    for name, prompt in zip(names, (FIRST, SECOND), strict=False):
        assert bench.sink.ended[name].end.outcome == "ok"
        assert bench.sink.tokens[name] == expected_tokens(prompt, 10)
    assert bench.env.counters.total["kv.tag_breach"] == 0
    assert bench.leftovers() == []


def arm(bench: Bench, do: str, **when: object) -> None:
    place = str(when.pop("place", "before"))
    bench.faults.arm([FaultSpec(id="f", n=0, do=parse_do(do), place=place, when=When(**when))])  # type: ignore[arg-type]


@pytest.mark.parametrize("cache", [False, True])
def test_who_is_preempted_comes_back_with_its_kv_and_goes_on_where_it_was(cache: bool):
    bench = bench_of(prefix_cache=cache)
    names = two(bench)
    bench.run()
    marks = bench.env.counters.total
    assert marks["swap.out"] == marks["swap.in"] == marks["kv.preempt"] >= 1
    assert bench.sink.ended[names[1]].preempted >= 1
    computed = sum(len(ticket.work.token_ids) for ticket in bench.device.launched)
    assert computed == 2 * (8 + 9), "no token was computed twice"
    healthy(bench, *names)


def test_blocks_wait_in_limbo_for_the_copy_and_nobody_else_has_to_go_meanwhile():
    bench = bench_of()
    names = two(bench)
    until_swapped(bench)
    before = bench.pool.count()
    assert before.limbo > 0
    assert bench.engine.status.swapped == 1
    bench.engine.step()
    assert bench.env.counters.total["kv.preempt"] == 1
    bench.device.complete_copy()
    bench.engine.step()
    assert bench.pool.count().limbo == 0
    bench.run()
    healthy(bench, *names)


@pytest.mark.parametrize("way", ["out", "in"])
def test_a_copy_that_fails_costs_a_recompute_and_no_token(way: str):
    bench = bench_of()
    names = two(bench)
    until_swapped(bench)
    if way == "in":
        bench.device.complete_copy()
        until_swapped_again(bench)
    bench.device.complete_copy(LaunchError("drawn"))
    bench.run()
    assert bench.env.counters.total["swap.failed"] == 1
    healthy(bench, *names)


def until_swapped_again(bench: Bench) -> None:
    for _ in range(50):
        bench.engine.step()
        if bench.device.copies:
            return
        if bench.engine.status.flight_ns is not None:
            bench.device.complete()
    raise AssertionError("it never came back")


@pytest.mark.parametrize("point", ["swap.out", "swap.in"])
def test_a_swap_that_is_refused_costs_a_recompute_and_no_token(point: str):
    bench = bench_of()
    arm(bench, f"{point}: refuse", times=1)
    names = two(bench)
    bench.run()
    assert bench.fires == ["f"]
    assert bench.env.counters.total["swap.refused"] == 1
    healthy(bench, *names)


def test_a_device_that_takes_no_copy_is_a_refusal_too():
    bench = bench_of()
    names = two(bench)
    while bench.env.counters.total["kv.preempt"] == 0:
        if bench.engine.status.flight_ns is not None:
            bench.device.complete()
        bench.device.refuse = [LaunchError("no room in the queue")]
        bench.engine.step()
        if bench.env.counters.total["kv.preempt"] == 0:
            bench.device.refuse = []
    bench.run()
    assert bench.leftovers() == []
    assert {bench.sink.ended[name].end.outcome for name in names} == {"ok"}


def test_without_room_on_the_host_who_is_preempted_computes_again():
    bench = bench_of(host_blocks=1)
    names = two(bench)
    bench.run()
    assert bench.env.counters.total["swap.refused"] >= 1
    assert bench.env.counters.total["swap.out"] == 0
    healthy(bench, *names)


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("way", ["out", "in"])
def test_cancelled_on_the_way_gives_everything_back_after_the_copy_and_not_before(way: str, copied: bool):
    bench = bench_of()
    names = two(bench)
    until_swapped(bench)
    if way == "in":
        bench.device.complete_copy()
        until_swapped_again(bench)
    if copied:
        bench.device.complete_copy()
        bench.engine.step()
    held = [pool for pool, owner, _ in bench.env.ledger.outstanding() if owner == names[1]]
    assert held, "it holds something that must come back"
    bench.mailbox.post(Cancel(names[1]))
    bench.engine.step()
    assert [pool for pool, owner, _ in bench.env.ledger.outstanding() if owner == names[1]] == []
    if not copied:
        assert {entry.pool for entry in bench.env.ledger.limbo()} >= {"io"}
        bench.device.complete_copy()
    bench.run()
    assert bench.sink.ended[names[1]].end.outcome == "cancelled"
    assert bench.leftovers() == []


def test_a_copy_that_hangs_is_late_then_fatal_and_its_requests_are_told():
    bench = bench_of()
    names = two(bench)
    until_swapped(bench)
    if bench.engine.status.flight_ns is not None:
        bench.device.complete()
    bench.engine.step()
    while bench.engine.status.flight_ns is not None:
        bench.device.complete()
        bench.engine.step()
    assert bench.engine.wait_s() is not None
    bench.clock.advance(2.0)
    bench.engine.step()
    assert bench.env.counters.total["device.late"] == 1
    bench.clock.advance(60.0)
    bench.engine.step()
    assert isinstance(bench.engine.fatal, DeviceLost)
    assert "swap out of" in str(bench.engine.fatal)
    assert bench.sink.ended[names[1]].end.outcome == "fatal"


def test_kv_that_comes_back_damaged_is_never_answered_with_200():
    bench = bench_of()
    names = two(bench)
    until_swapped(bench)
    bench.device.complete_copy()
    place = next(iter(bench.device.host))
    tokens, tags = bench.device.host[place]
    bench.device.host[place] = (tokens, [tags[1], tags[0], *tags[2:]])
    bench.run()
    assert bench.sink.ended[names[1]].end.code == "kv_corruption"
    assert bench.sink.ended[names[0]].end.outcome == "ok"


def test_a_forced_preemption_needs_no_pressure_and_changes_no_token():
    bench = bench_of()
    arm(bench, "sched.preempt: force", interval=3, times=3)
    name = bench.submit(FIRST, max_tokens=10)
    bench.run()
    assert bench.env.counters.total["kv.out_of_blocks"] == 0
    assert bench.env.counters.total["kv.preempt"] >= 2
    healthy(bench, name)


def test_the_fault_that_fails_who_is_preempted_ends_it_with_429_and_nobody_else():
    bench = bench_of()
    arm(bench, "sched.preempt: fail", place="in_flight", times=1)
    names = two(bench)
    bench.run()
    end = bench.sink.ended[names[1]].end
    assert (end.outcome, end.http, end.code) == ("refused", 429, "preempted")
    healthy(bench, names[0])


def test_the_cheapest_way_is_taken_and_what_was_measured_decides():
    bench = bench_of(Mode.AUTO)
    rates = bench.engine._preemption.rates
    rates.token_ns, rates.block_ns = 1.0, 1e6
    two(bench)
    bench.run()
    assert bench.env.counters.total["kv.preempt"] >= 1
    assert bench.env.counters.total["swap.out"] == 0
    rates.token_ns, rates.block_ns = 1e6, 1.0
    names = bench.submit(FIRST, max_tokens=10), bench.submit(SECOND, max_tokens=10)
    bench.run()
    assert bench.env.counters.total["swap.out"] >= 1
    healthy(bench, *names)


def test_who_could_not_be_back_before_its_deadline_is_failed_at_once():
    bench = bench_of(Mode.AUTO)
    rates = bench.engine._preemption.rates
    rates.token_ns = rates.block_ns = 1e12
    names = two(bench, deadline_s=30.0)
    bench.run()
    assert bench.sink.ended[names[1]].end.code == "preempted"
    healthy(bench, names[0])


def test_in_mode_fail_nobody_comes_back():
    bench = bench_of(Mode.FAIL)
    names = two(bench)
    bench.run()
    assert bench.sink.ended[names[1]].end.code == "preempted"
    healthy(bench, names[0])


def test_rates_follow_what_is_seen_and_forget_one_odd_launch():
    bench = bench_of()
    rates = bench.engine._preemption.rates
    for _ in range(30):
        rates.computed(10, 10_000)
    assert rates.token_ns == pytest.approx(1000, rel=0.01)
    rates.computed(10, 1_000_000)
    for _ in range(20):
        rates.computed(10, 10_000)
    assert rates.token_ns == pytest.approx(1000, rel=0.1)


def returned_while_its_copy_out_has_not_landed(bench: Bench, error: Exception | None = None) -> str:
    """The device's thread is done with the copy between two looks of the engine in one step."""
    arm(bench, "sched.preempt: force", skip=3, times=1)
    name = bench.submit(FIRST, max_tokens=10)
    until_swapped(bench)
    guard = bench.engine._guard

    def late() -> None:
        guard()
        bench.device.complete_copy(error)
        bench.engine._guard = guard  # type: ignore[method-assign]

    bench.engine._guard = late  # type: ignore[method-assign]
    bench.engine.step()
    return name


def test_a_copy_that_is_done_and_has_not_landed_is_waited_for():
    bench = bench_of()
    name = returned_while_its_copy_out_has_not_landed(bench)
    assert bench.device.copies == []
    bench.engine.step()
    assert bench.engine.status.flight_ns is None, "it has no row before its KV is back"
    bench.run()
    healthy(bench, name)


def test_a_copy_that_failed_and_has_not_landed_is_a_recompute_too():
    bench = bench_of()
    name = returned_while_its_copy_out_has_not_landed(bench, LaunchError("drawn"))
    bench.run()
    healthy(bench, name)


@pytest.mark.parametrize("mode", [Mode.SWAP, Mode.AUTO, Mode.RECOMPUTE])
@pytest.mark.parametrize("budget", [4, 32])
def test_alone_in_a_pool_that_lost_blocks_it_is_rejected_and_does_not_preempt_itself_for_ever(mode: Mode, budget: int):
    limits = Limits(token_budget=budget, seqs_max=4, waiting_max=8, expected_output=0.0, preemption=mode)
    bench = Bench(blocks=6, limits=limits, host_blocks=16)
    bench.pool.take(Owner("gone"), 2)
    starved, behind = bench.submit(FIRST, max_tokens=16), bench.submit(SECOND, max_tokens=2)
    bench.run(turns_max=300)
    assert bench.sink.ended[starved].end.code == "out_of_blocks"
    assert bench.sink.ended[behind].end.outcome == "ok"


@pytest.mark.parametrize("mode", [Mode.SWAP, Mode.RECOMPUTE])
def test_a_preemption_that_is_forced_whenever_it_can_be_still_lets_each_do_a_launch_between(mode: Mode):
    bench = bench_of(mode)
    arm(bench, "sched.preempt: force", times=None)
    name = bench.submit(FIRST, max_tokens=10)
    bench.run(turns_max=200)
    healthy(bench, name)


@pytest.mark.parametrize("group", ["g", "h"])
def test_a_forced_preemption_can_be_aimed_at_a_group(group: str):
    bench = bench_of()
    spec = FaultSpec(id="f", n=0, do=parse_do("sched.preempt: force"), scope=Scope(group="g"), when=When(times=1))
    bench.faults.arm([spec])
    bench.submit(FIRST, max_tokens=10, group=group)
    bench.run()
    assert bool(bench.fires) == (group == "g")


def test_who_comes_back_is_no_longer_counted_among_those_that_wait():
    bench = bench_of()
    two(bench)
    until_swapped(bench)
    assert (bench.engine.status.waiting, bench.engine.status.swapped) == (1, 1)
    bench.device.complete_copy()
    until_swapped_again(bench)
    assert (bench.engine.status.waiting, bench.engine.status.swapped) == (0, 0)


def test_an_engine_that_is_lost_waits_for_mail_only():
    bench = bench_of()
    two(bench)
    until_swapped(bench)
    bench.clock.advance(100.0)
    bench.engine.step()
    assert bench.engine.fatal is not None
    assert bench.engine.wait_s() is None


def test_one_launch_that_hung_says_little_of_what_tokens_cost():
    bench = bench_of()
    rates = bench.engine._preemption.rates
    rates.token_ns = rates.block_ns = 1000.0
    rates.computed(10, 20 * 10**9)
    rates.copied(10, 20 * 10**9)
    assert rates.token_ns == rates.block_ns == 1750.0
