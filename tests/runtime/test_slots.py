"""Slots are read, and not only their sums, where KV came by another way than a launch or is relied on for long."""

import pytest

from faults import FaultSpec, When, parse_do
from runtime.core.messages import Finish
from runtime.core.work import Way
from runtime.scheduling.preemption import Mode
from runtime.scheduling.scheduler import Limits
from tests.runtime.fakes import BLOCK_TOKENS, Bench

PROMPT = list(range(10))


def bench_of(**options: object) -> Bench:
    limits = Limits(token_budget=32, seqs_max=4, waiting_max=8, expected_output=0.0, preemption=Mode.SWAP)
    return Bench(blocks=16, limits=limits, host_blocks=16, **options)  # type: ignore[arg-type]


def wreck(bench: Bench, name: str) -> None:
    """Somebody writes into a slot behind the plane's back: its sum stays what it was."""
    block = bench.engine.requests[name].blocks[0]
    bench.pool.plane.rows[block][1] += 1


def corrupt(bench: Bench, name: str) -> bool:
    ended = bench.sink.ended.get(name)
    return ended is not None and ended.end.code == "kv_corruption"


def running(bench: Bench, max_tokens: int = 20, turns: int = 3) -> str:
    name = bench.submit(PROMPT, max_tokens)
    for _ in range(turns):
        bench.turn()
    bench.engine.step()
    return name


def test_a_step_of_decode_reads_sums_only_so_that_it_stays_cheap():
    bench = bench_of()
    name = running(bench)
    wreck(bench, name)
    bench.device.complete()
    for _ in range(3):
        bench.turn()
    assert name not in bench.sink.ended


def test_before_a_request_ends_well_all_its_slots_are_read():
    bench = bench_of()
    name = running(bench)
    wreck(bench, name)
    bench.device.complete()
    bench.run()
    assert corrupt(bench, name)
    assert bench.leftovers() == []


def test_the_first_step_after_the_prefill_reads_slots():
    bench = bench_of()
    name = bench.submit(PROMPT, 20)
    bench.engine.step()
    bench.device.complete()
    wreck(bench, name)
    bench.engine.step()
    bench.device.complete()
    bench.engine.step()
    assert corrupt(bench, name)


def test_who_hits_a_prefix_reads_its_slots():
    bench = bench_of(prefix_cache=True)
    first = running(bench)
    wreck(bench, first)
    bench.device.complete()
    second = bench.submit(PROMPT, 4)
    for _ in range(3):
        bench.turn()
    assert bench.pool.accounts[""].hits == 2 * BLOCK_TOKENS
    assert corrupt(bench, second)


def test_who_comes_back_from_the_host_reads_its_slots():
    bench = bench_of()
    bench.faults.arm([FaultSpec(id="f", n=0, do=parse_do("sched.preempt: force"), when=When(skip=3, times=1))])
    name = bench.submit(PROMPT, 20)
    while not bench.device.copies or bench.device.copies[0].work.way is Way.OUT:
        bench.engine.step()
        if bench.device.copies and bench.device.copies[0].work.way is Way.OUT:
            bench.device.complete_copy()
        elif bench.engine.status.flight_ns is not None:
            bench.device.complete()
    bench.faults.heal_all("test")
    bench.device.complete_copy()
    wreck(bench, name)
    bench.engine.step()
    bench.device.complete()
    bench.engine.step()
    assert corrupt(bench, name)


@pytest.mark.parametrize("scope", ["live", "drain"])
def test_an_audit_reads_the_slots_of_all_who_run(scope: str):
    bench = bench_of()
    name, other = running(bench), bench.submit([7], 20)
    wreck(bench, name)
    bench.engine.audit(scope)
    bench.device.complete()
    bench.turn()
    assert corrupt(bench, name)
    assert other not in bench.sink.ended


def test_while_a_fault_is_armed_every_launch_reads_slots():
    bench = bench_of()
    name = running(bench)
    bench.device.complete()
    wreck(bench, name)
    bench.faults.arm([FaultSpec(id="f", n=0, do=parse_do("kv.take: oom"), when=When(skip=1000, times=1))])
    bench.turn()
    bench.turn()
    assert corrupt(bench, name)


def test_a_request_that_ends_by_a_stop_string_is_read_as_well():
    bench = bench_of()
    name = running(bench)
    bench.device.complete()
    bench.engine.step()
    wreck(bench, name)
    bench.mailbox.post(Finish(name))
    bench.engine.step()
    assert corrupt(bench, name)
