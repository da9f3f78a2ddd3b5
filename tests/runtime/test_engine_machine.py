"""Any order of submits, cancels, completions, failures, copies and time, with and without prefix cache and swap, in
every mode of preemption: one end each, right tokens, nothing left over."""

import hypothesis.strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from faults import FaultSpec, When, parse_do
from runtime.core.errors import LaunchError
from runtime.core.messages import Cancel, Finish
from runtime.core.work import Way
from runtime.scheduling.preemption import Mode
from runtime.scheduling.scheduler import Limits
from tests.runtime.fakes import Bench, expected_tokens
from tests.runtime.memory.spans.bench import check_index
from tests.steps import CountedMachine, machine_settings

STEMS = ([1, 2, 3, 4] * 3, [1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9], [0] * 12)
prompts = st.builds(
    lambda stem, n, tail: (stem[:n] + tail)[:14],
    st.sampled_from(STEMS),
    st.integers(1, 12),
    st.lists(st.integers(0, 9), max_size=5),
)


BREAKS = [
    *((do, "before") for do in ("kv.take: oom", "kv.evict: drop", "kv.publish: drop", "swap.out: refuse")),
    *((do, "before") for do in ("swap.in: refuse", "sched.preempt: force")),
    ("sched.preempt: fail", "in_flight"),
]


class EngineMachine(CountedMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = self.bench_of(False, 0, Mode.AUTO, 0.0)
        self.asked: dict[str, tuple[list[int], int]] = {}
        self.stopped: set[str] = set()
        self.told: set[str] = set()
        """Cancelled or finished, and not read by the engine yet."""
        self.broken = 0

    def bench_of(self, cache: bool, host_blocks: int, mode: Mode, expected_output: float) -> Bench:
        limits = Limits(
            token_budget=9,
            seqs_max=3,
            waiting_max=5,
            expected_output=expected_output,
            preemption=mode,
            ageing_s=1.0,
            quantum=2,
        )
        return Bench(blocks=7, limits=limits, prefix_cache=cache, host_blocks=host_blocks)

    @initialize(
        cache=st.sampled_from([True, True, False]),
        host_blocks=st.sampled_from([14, 14, 3, 0]),
        mode=st.sampled_from([Mode.SWAP, Mode.SWAP, Mode.SWAP, Mode.AUTO, Mode.RECOMPUTE, Mode.FAIL]),
        expected_output=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
    )
    def choose(self, cache: bool, host_blocks: int, mode: Mode, expected_output: float) -> None:
        self.bench = self.bench_of(cache, host_blocks, mode, expected_output)

    @property
    def flying(self) -> bool:
        return self.bench.engine.status.flight_ns is not None

    @rule(
        prompt=prompts,
        max_tokens=st.integers(1, 8),
        deadline_s=st.sampled_from([2.0, 1000.0]),
        priority=st.sampled_from([0, 0, 0, 1, 3]),
    )
    def submit(self, prompt: list[int], max_tokens: int, deadline_s: float, priority: int) -> None:
        self.asked[self.bench.submit(prompt, max_tokens, deadline_s, priority=priority)] = (prompt, max_tokens)

    @rule()
    def step(self) -> None:
        self.bench.engine.step()
        ended = self.bench.sink.ended
        assert self.told <= ended.keys(), "a cancel was lost"
        self.told.clear()
        for name, request in self.bench.engine.requests.items():
            assert request.submit.deadline_ns > self.bench.clock.t_ns, f"the deadline of {name} was ignored"

    @precondition(lambda self: not self.flying)
    @rule(turns=st.integers(1, 9))
    def go_on(self, turns: int) -> None:
        for _ in range(turns):
            self.bench.turn()
        self.told.clear()

    @precondition(lambda self: self.flying)
    @rule(fails=st.booleans())
    def complete(self, fails: bool) -> None:
        if not self.bench.device.launched[-1].done:
            self.bench.device.complete(LaunchError("drawn") if fails else None)

    @precondition(lambda self: self.bench.device.copies)
    @rule(fails=st.sampled_from([False, False, True]))
    def complete_copy(self, fails: bool) -> None:
        self.bench.device.complete_copy(LaunchError("drawn") if fails else None)

    @rule(times=st.integers(1, 2))
    def refuse_launches(self, times: int) -> None:
        self.bench.device.refuse = [LaunchError("drawn")] * times

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), stop=st.booleans())
    def stop_one(self, data: st.DataObject, stop: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.asked)))
        self.stopped.add(name)
        self.told.add(name)
        self.bench.mailbox.post(Finish(name) if stop else Cancel(name))

    @rule(do=st.sampled_from(BREAKS))
    def break_once(self, do: tuple[str, str]) -> None:
        self.bench.faults.heal_all("drawn")
        spec = FaultSpec(id="f", n=self.broken, do=parse_do(do[0]), place=do[1], when=When(times=1))
        self.bench.faults.arm([spec])
        self.broken += 1

    @precondition(lambda self: self.bench.engine.scheduler.running)
    @rule(times=st.integers(1, 3))
    def preempt_by_force(self, times: int) -> None:
        self.bench.faults.heal_all("drawn")
        spec = FaultSpec(id="f", n=self.broken, do=parse_do("sched.preempt: force"), when=When(times=times))
        self.bench.faults.arm([spec])
        self.broken += 1
        self.bench.engine.step()
        self.told.clear()

    @rule(seconds=st.sampled_from([0.1, 1.5]))
    def time_passes(self, seconds: float) -> None:
        self.bench.clock.advance(seconds)

    @invariant()
    def every_block_is_somewhere(self) -> None:
        count = self.bench.pool.count()
        assert count.conserved, count

    @invariant()
    def the_index_is_whole_and_bounded_and_finds_no_block_that_is_free(self) -> None:
        pool = self.bench.pool
        check_index(pool.index)
        assert len(pool.index) <= pool.blocks
        assert pool.index.none_published(pool._free)

    @invariant()
    def a_request_computes_at_least_its_last_token(self) -> None:
        for request in self.bench.engine.scheduler.running:
            assert request.remaining >= 1
            assert request.computed == request.tags.tokens

    @invariant()
    def who_waits_holds_blocks_of_no_pool_and_lists_are_sorted(self) -> None:
        scheduler = self.bench.engine.scheduler
        for request in scheduler.waiting:
            assert not request.blocks
            assert not self.bench.env.ledger.held("kv", request.id)
            assert bool(self.bench.env.ledger.held("io", request.id)) == (request.swapped is not None)
        for order in (scheduler.waiting, scheduler.running):
            assert [one.rank for one in order] == sorted(one.rank for one in order)
        assert len(scheduler.running) <= 3

    @invariant()
    def what_is_in_flight_is_nobody_elses_and_never_free(self) -> None:
        bench = self.bench
        free = set(bench.pool._free)
        launches = [ticket.work for ticket in bench.device.launched[-1:] if not ticket.done]
        for work in launches:
            assert not free.intersection(block for table in work.block_tables for block in table)
        for ticket in bench.device.copies:
            copy = ticket.work
            assert not free.intersection(copy.blocks)
            assert all(copy.request_id not in work.request_ids for work in launches), "it runs without its KV"
            holders = [o for pool, o, _ in bench.env.ledger.outstanding() if pool == "kv"]
            for block in copy.blocks:
                owners = [o for o in holders if block in bench.env.ledger.held("kv", o)]
                assert copy.way is Way.OUT or owners in ([copy.request_id], [])

    @invariant()
    def tokens_are_a_prefix_of_what_each_would_get_alone(self) -> None:
        for name, tokens in self.bench.sink.tokens.items():
            prompt, _ = self.asked[name]
            assert tokens == expected_tokens(prompt, len(tokens)), name

    def teardown(self) -> None:
        bench = self.bench
        if self.flying and not bench.device.launched[-1].done:
            bench.device.complete()
        bench.run()
        while bench.device.copies:
            bench.device.complete_copy()
        bench.engine.step()
        assert bench.sink.ended.keys() == self.asked.keys()
        for name, ended in bench.sink.ended.items():
            if ended.end.outcome == "ok" and name not in self.stopped:
                assert ended.tokens_out == self.asked[name][1]
        assert bench.env.counters.total["kv.tag_breach"] == 0
        assert bench.env.counters.total["contract.violation"] == 0
        assert not [event for event in bench.env.events.take() if event.kind == "invariant"]
        assert bench.leftovers() == []


EngineMachine.TestCase.settings = machine_settings(runs=100, steps=40)
TestEngineMachine = EngineMachine.TestCase
