import pytest

from faults import Do, FaultSpec, When
from runtime.core.errors import DeviceLost, LaunchError
from runtime.core.messages import Call, Cancel, Finish
from runtime.guard.watchdog import Bounds
from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.scheduler import Limits
from tests.runtime.fakes import Bench, expected_tokens


def arm(bench: Bench, point: str, action: str, **when: int) -> None:
    bench.faults.arm([FaultSpec(id="f", n=0, do=Do(point, action), when=When(**when))])


def test_requests_of_many_lengths_get_the_tokens_they_would_get_alone():
    bench = Bench()
    prompts = {bench.submit(range(i, i + n)): range(i, i + n) for i, n in enumerate((1, 3, 4, 5, 17, 30))}
    bench.run()
    for name, prompt in prompts.items():
        assert bench.sink.tokens[name] == expected_tokens(prompt, 4), name
        assert bench.sink.ended[name].end.outcome == "ok"
        assert bench.sink.ended[name].end.finish == "length"
    assert bench.leftovers() == []


def test_prompt_longer_than_the_budget_is_computed_in_block_aligned_chunks():
    bench = Bench(limits=Limits(token_budget=6, seqs_max=4, waiting_max=8))
    name = bench.submit(range(15), max_tokens=1)
    bench.run()
    assert [ticket.work.tokens for ticket in bench.device.launched] == [4, 4, 4, 3]
    assert bench.sink.tokens[name] == expected_tokens(range(15), 1)


def test_decodes_are_not_starved_by_a_long_prompt():
    bench = Bench(blocks=64, limits=Limits(token_budget=8, seqs_max=4, waiting_max=8))
    short = bench.submit([1], max_tokens=6)
    bench.turn()
    bench.submit(range(100), max_tokens=1)
    for _ in range(6):
        bench.turn()
    assert bench.sink.ended[short].end.outcome == "ok"


def test_out_of_blocks_preempts_the_last_to_arrive_which_then_recomputes_the_same_tokens():
    bench = Bench(blocks=6)
    first = bench.submit(range(8), max_tokens=10)
    second = bench.submit(range(50, 58), max_tokens=10)
    bench.run()
    assert bench.env.counters.total["kv.preempt"] >= 1
    assert bench.sink.ended[second].preempted >= 1
    assert bench.sink.ended[first].preempted == 0
    assert bench.sink.tokens[first] == expected_tokens(range(8), 10)
    assert bench.sink.tokens[second] == expected_tokens(range(50, 58), 10)
    assert bench.leftovers() == []


def test_request_that_could_never_fit_is_refused_at_the_door_with_400():
    bench = Bench(blocks=2)
    name = bench.submit(range(6), max_tokens=10)
    bench.run()
    end = bench.sink.ended[name].end
    assert (end.http, end.code) == (400, "context_length_exceeded")
    assert "pool holds 8" in (end.message or "")


def test_full_queue_is_429_and_never_an_unbounded_queue():
    bench = Bench(limits=Limits(token_budget=16, seqs_max=1, waiting_max=2))
    names = [bench.submit([1, 2]) for _ in range(5)]
    bench.engine.step()
    refused = [name for name in names if name in bench.sink.ended]
    assert refused == names[2:]
    assert {bench.sink.ended[name].end.code for name in refused} == {"queue_full"}


@pytest.mark.parametrize("turns", range(8))
def test_cancel_in_every_state_gives_all_back_and_leaves_the_others_alone(turns):
    bench = Bench(limits=Limits(token_budget=8, seqs_max=2, waiting_max=8))
    other = bench.submit(range(9), max_tokens=5)
    gone = bench.submit(range(20, 40), max_tokens=5)
    for _ in range(turns):
        bench.turn()
    bench.mailbox.post(Cancel(gone))
    bench.run()
    if gone in bench.sink.ended:
        assert bench.sink.ended[gone].end.outcome in ("cancelled", "ok")
    assert bench.sink.tokens[other] == expected_tokens(range(9), 5)
    assert bench.leftovers() == []


def test_cancel_during_a_launch_keeps_its_blocks_in_limbo_until_the_launch_is_done():
    bench = Bench()
    name = bench.submit(range(8))
    bench.engine.step()
    bench.mailbox.post(Cancel(name))
    bench.engine.step()
    assert bench.sink.ended[name].end.outcome == "cancelled"
    assert (bench.pool.count().limbo, bench.pool.count().free) == (2, 14)
    bench.device.complete()
    bench.engine.step()
    assert bench.pool.count().free == 16


def test_late_cancel_and_late_finish_of_an_ended_request_change_nothing():
    bench = Bench()
    name = bench.submit([1])
    bench.run()
    bench.mailbox.post(Cancel(name))
    bench.mailbox.post(Finish(name))
    bench.engine.step()
    assert bench.sink.ended[name].end.outcome == "ok"


def test_deadline_ends_requests_while_the_launch_still_hangs_and_their_blocks_wait_for_it():
    bench = Bench()
    inside = bench.submit(range(8), deadline_s=5)
    bench.engine.step()
    queued = bench.submit(range(3), deadline_s=6)
    bench.clock.advance(5.5)
    bench.engine.step()
    assert bench.sink.ended[inside].end.http == 504
    assert bench.engine.status.flight_ns is not None
    assert bench.pool.count().limbo == 2
    assert bench.env.counters.total["device.late"] == 1
    bench.clock.advance(1)
    bench.engine.step()
    assert bench.sink.ended[queued].end.http == 504
    bench.device.complete()
    bench.engine.step()
    assert bench.leftovers() == []


def test_engine_asks_to_be_woken_at_the_next_deadline_and_not_before():
    bench = Bench(bounds=Bounds(late_s=1.0, hang_fatal_s=60.0))
    assert bench.engine.wait_s() is None
    bench.submit([1], deadline_s=0.5)
    bench.engine.step()
    assert bench.engine.wait_s() == pytest.approx(0.5)


def test_hang_past_the_fatal_bound_gives_every_open_request_one_error_and_no_200_after_it():
    bench = Bench(bounds=Bounds(late_s=1.0, hang_fatal_s=10.0))
    names = [bench.submit([i, i]) for i in range(6)]
    bench.engine.step()
    bench.clock.advance(11)
    bench.engine.step()
    late = bench.submit([9])
    bench.device.complete()
    bench.engine.step()
    assert isinstance(bench.engine.fatal, DeviceLost)
    assert {bench.sink.ended[name].end.http for name in (*names, late)} == {503}
    assert {bench.sink.ended[name].end.outcome for name in (*names, late)} == {"fatal"}


@pytest.mark.parametrize("at_launch", [True, False])
def test_failed_launch_is_repeated_once_and_the_tokens_are_the_same(at_launch):
    bench = Bench()
    name = bench.submit(range(5))
    if at_launch:
        bench.device.refuse = [LaunchError("no")]
    else:
        bench.engine.step()
        bench.device.complete(LaunchError("no"))
    bench.run()
    assert bench.sink.tokens[name] == expected_tokens(range(5), 4)
    assert bench.env.counters.total["engine.step_repeated"] == 1
    assert bench.env.counters.total["engine.step_failed"] == 0


def test_launch_that_did_its_work_and_then_failed_is_repeated_without_a_false_alarm_of_tags():
    bench = Bench()
    name = bench.submit(range(5))
    bench.turn()
    bench.engine.step()
    bench.device.complete(LaunchError("reported after the work was done"), after_the_work=True)
    bench.run()
    assert bench.sink.tokens[name] == expected_tokens(range(5), 4)
    assert bench.env.counters.total["kv.tag_breach"] == 0


def test_launch_that_fails_twice_fails_its_batch_and_only_its_batch():
    bench = Bench(limits=Limits(token_budget=16, seqs_max=2, waiting_max=8))
    hit = [bench.submit([i] * 3) for i in range(2)]
    spared = bench.submit([7] * 3)
    bench.device.refuse = [LaunchError("no"), LaunchError("no again")]
    bench.run()
    assert {bench.sink.ended[name].end.http for name in hit} == {500}
    assert bench.sink.tokens[spared] == expected_tokens([7] * 3, 4)
    assert bench.leftovers() == []


def test_block_given_away_too_early_is_refused_by_tags_and_never_answered_with_200():
    bench = Bench(blocks=8)
    first = bench.submit(range(8), max_tokens=12)
    bench.turn()
    bench.engine.step()
    stolen = bench.env.ledger.held("kv", first)[0]
    bench.device.complete()
    bench.pool._free.append(stolen)  # the planted bug: free while its owner still reads it
    second = bench.submit(range(30, 33), max_tokens=4)
    bench.run()
    assert bench.sink.ended[first].end.code == "kv_corruption"
    assert bench.env.counters.total["kv.tag_breach"] >= 1
    assert bench.sink.ended[second].end.outcome in ("ok", "http_error")


def test_dropped_free_is_a_leak_with_its_owners_name_and_last_events():
    bench = Bench()
    arm(bench, "memory.free", "drop", times=1)
    name = bench.submit(range(8))
    bench.run()
    (leak,) = [row for row in bench.engine.audit("drain") if row.owner]
    assert (leak.owner, leak.value, leak.expected) == (name, 3, 0)
    assert "ended ok" in leak.history
    assert bench.fires == ["f"]


def test_blocks_that_never_come_back_from_limbo_are_missed_with_their_last_owner_and_its_history(monkeypatch):
    monkeypatch.setattr(PagedPool, "_give_back", lambda pool, blocks: None)
    bench = Bench()
    name = bench.submit(range(8))
    bench.run()
    rows = bench.engine.audit("drain")
    (lost,) = [row for row in rows if row.owner]
    assert (lost.name, lost.owner, lost.value, lost.expected) == ("kv_blocks.lost", name, 3, 0)
    assert "ended ok" in lost.history
    assert f"{name} held blocks" in bench.env.events.take()[-1].detail


def test_oom_fault_climbs_the_ladder_and_all_is_well_afterwards():
    bench = Bench()
    names = [bench.submit(range(i, i + 6), max_tokens=8) for i in range(4)]
    bench.turn()
    arm(bench, "kv.take", "oom", times=3)
    bench.run()
    assert bench.env.counters.total["kv.out_of_blocks"] == 3
    for index, name in enumerate(names):
        if bench.sink.ended[name].end.outcome == "ok":
            assert bench.sink.tokens[name] == expected_tokens(range(index, index + 6), 8)
        else:
            assert bench.sink.ended[name].end.code == "out_of_blocks"
    assert bench.leftovers() == []


def test_alone_and_out_of_blocks_is_rejected_rather_than_waiting_for_nobody():
    bench = Bench()
    arm(bench, "kv.take", "oom", times=1)
    name = bench.submit(range(6))
    bench.run()
    assert (bench.sink.ended[name].end.http, bench.sink.ended[name].end.code) == (429, "out_of_blocks")


def test_refuse_fault_is_429_for_the_new_request_only():
    bench = Bench()
    inside = bench.submit([1, 2])
    bench.turn()
    arm(bench, "sched.admit", "refuse", times=1)
    refused = bench.submit([3])
    bench.run()
    assert bench.sink.ended[refused].end.http == 429
    assert bench.sink.ended[inside].end.outcome == "ok"


def test_draining_engine_takes_nobody_new_and_lets_those_inside_finish():
    bench = Bench()
    inside = bench.submit([1, 2])
    bench.turn()
    bench.mailbox.post(Call(bench.engine.drain))
    late = bench.submit([3])
    bench.run()
    assert bench.sink.ended[inside].end.outcome == "ok"
    assert (bench.sink.ended[late].end.http, bench.sink.ended[late].end.code) == (503, "draining")


def test_stop_token_ends_with_finish_stop():
    bench = Bench()
    token = expected_tokens([5], 1)[0]
    from runtime.core.messages import Submit
    from runtime.core.work import Sampling

    bench.mailbox.offer(Submit("s", (5,), 10, Sampling(), 0, 10**12, stop_tokens=frozenset({token})))
    bench.run()
    assert bench.sink.ended["s"].end.finish == "stop"
    assert bench.sink.ended["s"].tokens_out == 1


def test_same_requests_give_the_same_launches_twice():
    def history() -> list[tuple[str, ...]]:
        bench = Bench(blocks=7)
        for i in range(6):
            bench.submit(range(i, i + 5), max_tokens=6)
        bench.run()
        return [ticket.work.request_ids for ticket in bench.device.launched]

    assert history() == history()
