"""The prefix cache in the engine: what is shared, when it may be, and what it never changes: anybody's tokens."""

import pytest

from faults import Do, FaultSpec, When
from runtime.core.errors import LaunchError
from runtime.core.messages import Cancel
from runtime.scheduling.request import Request
from runtime.scheduling.scheduler import Limits
from tests.runtime.fakes import BLOCK_TOKENS, Bench, expected_tokens
from tests.runtime.memory.spans.bench import check_index

SHARED = list(range(100, 117))
"""Four full blocks and one token."""


def bench_of(blocks: int = 32, **limits: int) -> Bench:
    given = {"token_budget": 64, "seqs_max": 4, "waiting_max": 16, "expected_output": 0, **limits}
    return Bench(blocks, Limits(**given), prefix_cache=True)


def ask(bench: Bench, prompt: list[int], max_tokens: int = 4, group: str = "") -> str:
    """One request, to its end."""
    name = bench.submit(prompt, max_tokens, group=group)
    bench.run()
    return name


def computed(bench: Bench) -> int:
    """Tokens that the device was given."""
    return sum(ticket.work.tokens for ticket in bench.device.launched)


def arm(bench: Bench, point: str, action: str, **when: int) -> None:
    bench.faults.arm([FaultSpec(id="f", n=0, do=Do(point, action), when=When(**when))])


def healthy(bench: Bench) -> None:
    check_index(bench.pool.index)
    assert bench.env.counters.total["kv.tag_breach"] == 0
    assert not [event for event in bench.env.events.take() if event.kind == "invariant"]
    assert bench.leftovers() == []


def test_who_begins_alike_computes_only_the_rest_and_gets_the_same_tokens():
    bench = bench_of()
    ask(bench, SHARED)
    before = computed(bench)
    second = ask(bench, [*SHARED, 1, 2], max_tokens=4)
    assert computed(bench) - before == 3 + 3
    assert bench.sink.ended[second].tokens_cached == 16
    assert bench.sink.tokens[second] == expected_tokens([*SHARED, 1, 2], 4)
    account = bench.pool.accounts[""]
    assert (account.queries, account.hits) == (17 + 19, 16)
    healthy(bench)


@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 9, 16, 17])
def test_of_a_prompt_that_is_known_to_its_last_token_that_one_is_computed_all_the_same(length):
    bench = bench_of()
    ask(bench, SHARED)
    before = len(bench.device.launched)
    again = ask(bench, SHARED[:length], max_tokens=2)
    first_row = bench.device.launched[before].work
    assert first_row.tokens == length - bench.sink.ended[again].tokens_cached >= 1
    assert bench.sink.ended[again].tokens_cached == (length - 1) // BLOCK_TOKENS * BLOCK_TOKENS
    assert bench.sink.tokens[again] == expected_tokens(SHARED[:length], 2)
    healthy(bench)


def test_answers_are_cached_too_for_the_next_turn_of_a_conversation():
    bench = bench_of()
    first = ask(bench, SHARED, max_tokens=8)
    turn = [*SHARED, *bench.sink.tokens[first], 5]
    second = ask(bench, turn)
    assert bench.sink.ended[second].tokens_cached == 24
    assert bench.sink.tokens[second] == expected_tokens(turn, 4)
    healthy(bench)


def test_nothing_is_shared_before_the_launch_that_computes_it_has_landed():
    bench = bench_of()
    bench.submit(SHARED)
    bench.engine.step()
    assert len(bench.pool.index) == 0, "blocks are given, and their KV is not there yet"
    bench.device.complete(LaunchError("no"))
    bench.engine.step()
    assert len(bench.pool.index) == 0, "nor after a launch that failed"
    bench.device.complete()
    bench.engine.step()
    assert len(bench.pool.index) == 4
    bench.device.complete()
    bench.run()
    healthy(bench)


def test_who_is_cancelled_during_its_launch_has_published_nothing_of_it():
    bench = bench_of()
    name = bench.submit(SHARED)
    bench.engine.step()
    bench.mailbox.post(Cancel(name))
    bench.engine.step()
    assert bench.pool.count().limbo == 5
    bench.device.complete()
    bench.engine.step()
    count = bench.pool.count()
    assert (count.free, count.cached) == (32, 0)
    healthy(bench)


def test_a_shared_block_lives_until_its_last_holder_leaves_and_counts_once():
    bench = bench_of()
    first = bench.submit(SHARED, max_tokens=30)
    bench.turn()
    second = bench.submit([*SHARED, 1], max_tokens=30)
    bench.turn()
    bench.turn()
    tables = [bench.engine.requests[name].blocks for name in (first, second)]
    assert tables[0][:4] == tables[1][:4] and not set(tables[0][4:]) & set(tables[1][4:])
    assert [bench.env.ledger.holders("kv")[block] for block in tables[0][:4]] == [2] * 4
    assert bench.pool.count().live == len(set(tables[0]) | set(tables[1]))
    assert bench.engine.requests[first].generations[:4] == bench.engine.requests[second].generations[:4]
    live = {row.owner: row.value for row in bench.engine.audit("live") if row.owner}
    assert live == {first: len(tables[0]), second: len(tables[1])}, "the ledger names both"

    bench.mailbox.post(Cancel(first))
    bench.turn()
    bench.run()
    assert bench.sink.tokens[second] == expected_tokens([*SHARED, 1], 30)
    healthy(bench)


def test_a_block_that_a_hung_launch_of_one_reads_is_not_reused_after_the_other_has_left():
    bench = bench_of(blocks=10)
    ask(bench, SHARED, max_tokens=1)
    reader = bench.submit([*SHARED, 1], max_tokens=8)
    bench.engine.step()
    bench.mailbox.post(Cancel(reader))
    bench.engine.step()
    count = bench.pool.count()
    assert (count.live, count.limbo, count.cached, count.free) == (0, 5, 0, 5), "cached blocks wait in limbo as well"
    greedy = bench.submit(range(30), max_tokens=4)
    bench.engine.step()
    assert bench.pool.count().limbo == 5
    bench.device.complete()
    bench.run()
    assert bench.sink.tokens[greedy] == expected_tokens(range(30), 4)
    healthy(bench)


def test_groups_do_not_share():
    bench = bench_of()
    ask(bench, SHARED, group="a")
    other = ask(bench, SHARED, group="b")
    same = ask(bench, SHARED, group="a")
    assert [bench.sink.ended[name].tokens_cached for name in (other, same)] == [0, 16]


def test_preempted_request_finds_its_own_blocks_again(monkeypatch):
    adopt_prefix, adopted = Request.adopt_prefix, []

    def told(self, blocks, generations):
        adopted.append(self.id)
        adopt_prefix(self, blocks, generations)

    monkeypatch.setattr(Request, "adopt_prefix", told)
    bench = bench_of(blocks=7)
    first = bench.submit(range(8), max_tokens=10)
    second = bench.submit(range(50, 58), max_tokens=10)
    bench.run()
    assert bench.sink.ended[second].preempted >= 1
    assert second in adopted
    assert sum(one.hits for one in bench.pool.accounts.values()) == 0, "its own blocks are no hit of a client's prompt"
    assert bench.sink.ended[second].tokens_cached == 0, "it tells what was cached when it was first admitted"
    for name, prompt in ((first, range(8)), (second, range(50, 58))):
        assert bench.sink.tokens[name] == expected_tokens(prompt, 10)
    healthy(bench)


def test_eviction_is_the_first_rung_and_nobody_is_preempted_while_something_is_only_cached():
    bench = bench_of(blocks=8)
    for start in range(0, 60, 20):
        name = ask(bench, list(range(start, start + 18)), max_tokens=4)
        assert bench.sink.ended[name].end.outcome == "ok"
    assert bench.env.counters.total["kv.evict"] >= 5
    assert bench.env.counters.total["kv.out_of_blocks"] == bench.env.counters.total["kv.preempt"] == 0
    assert len(bench.pool.index) <= 8
    healthy(bench)


def test_what_is_only_cached_keeps_nobody_in_the_queue():
    bench = bench_of(blocks=8)
    ask(bench, list(range(60, 81)), max_tokens=4)
    assert bench.pool.count().free < 3
    names = [bench.submit([n] * 5, max_tokens=3) for n in range(2)]
    bench.turn()
    assert bench.engine.status.running == 2
    bench.run()
    assert [bench.sink.ended[name].end.outcome for name in names] == ["ok", "ok"]
    healthy(bench)


def test_a_cached_block_that_is_taken_over_is_room_for_nobody_else():
    bench = bench_of(blocks=8)
    ask(bench, SHARED, max_tokens=1)
    running = bench.submit([7] * 11, max_tokens=12)
    bench.turn()
    late = bench.submit(SHARED, max_tokens=3)
    bench.run()
    assert bench.env.counters.total["kv.preempt"] == 0, "it was not let in to be thrown out at the next block"
    assert bench.sink.ended[late].admit_ns > bench.sink.ended[running].admit_ns
    assert bench.sink.tokens[running] == expected_tokens([7] * 11, 12)
    healthy(bench)


def test_what_a_preempted_request_computes_again_is_published_again():
    bench = bench_of()
    name = bench.submit(SHARED, max_tokens=4)
    bench.turn()
    bench.engine.step()
    bench.device.complete()
    for ticket in bench.env.ledger.settle():
        bench.engine._land(ticket)
    bench.engine.scheduler.preemption.preempt(bench.engine.requests[name])
    bench.pool._free.extend(bench.pool.index.evict(bench.pool.index.evictable))
    bench.run()
    again = ask(bench, SHARED)
    assert bench.sink.ended[again].tokens_cached == 16
    assert bench.sink.tokens[name] == expected_tokens(SHARED, 4)
    healthy(bench)


def test_an_evicted_block_is_not_found_any_more_and_the_end_of_a_sequence_goes_before_its_beginning():
    bench = bench_of(blocks=8)
    ask(bench, SHARED, max_tokens=1)
    ask(bench, list(range(19)), max_tokens=2)
    assert bench.env.counters.total["kv.evict"] == 1
    again = ask(bench, SHARED, max_tokens=1)
    assert bench.sink.ended[again].tokens_cached == 12, "three of four are left, from the first on"
    assert bench.sink.tokens[again] == expected_tokens(SHARED, 1)
    healthy(bench)


def test_an_admission_that_finds_no_room_gives_back_what_it_shared():
    bench = bench_of()
    ask(bench, SHARED)
    arm(bench, "kv.take", "oom", times=1)
    name = bench.submit([*SHARED, 1, 2, 3, 4, 5])
    bench.run()
    assert bench.sink.ended[name].end.code == "out_of_blocks"
    assert bench.pool.count().cached >= 4
    healthy(bench)


def test_dropped_publish_is_counted_by_who_looks_for_the_block_and_changes_no_tokens():
    bench = bench_of()
    arm(bench, "kv.publish", "drop", times=1)
    ask(bench, SHARED)
    again = ask(bench, SHARED)
    assert bench.fires == ["f"]
    assert bench.env.counters.total["kv.unpublished"] == 1
    assert bench.sink.ended[again].tokens_cached == 0, "the first block was not published, so none behind it is found"
    assert bench.sink.tokens[again] == expected_tokens(SHARED, 4)
    third = ask(bench, SHARED)
    assert bench.sink.ended[third].tokens_cached == 16, "the next one published it"
    healthy(bench)


def test_dropped_eviction_sends_the_pressure_to_the_next_rung():
    bench = bench_of(blocks=8)
    ask(bench, SHARED, max_tokens=1)
    arm(bench, "kv.evict", "drop", times=1)
    name = ask(bench, list(range(20)), max_tokens=4)
    assert bench.fires == ["f"]
    assert bench.env.counters.total["kv.out_of_blocks"] == 1
    assert bench.sink.ended[name].end.code == "out_of_blocks", "nobody to preempt, nobody to wait for"
    well = ask(bench, list(range(20)), max_tokens=4)
    assert bench.sink.tokens[well] == expected_tokens(range(20), 4)
    assert bench.env.counters.total["kv.evict"] >= 1
    healthy(bench)


def test_damaged_cached_block_is_refused_by_the_tags_of_its_next_reader_and_nobody_finds_it_after():
    bench = bench_of()
    ask(bench, SHARED)
    bench.pool.plane._sums[bench.pool.index.find(_keys(bench))[1]] += 1
    hit = ask(bench, SHARED)
    assert bench.sink.ended[hit].end.code == "kv_corruption"
    after = ask(bench, SHARED)
    assert bench.sink.ended[after].tokens_cached == BLOCK_TOKENS, "up to the damage"
    assert bench.sink.tokens[after] == expected_tokens(SHARED, 4)
    assert bench.env.counters.total["kv.tag_breach"] == 1
    assert bench.leftovers() == []


def _keys(bench: Bench) -> list:
    from runtime.memory.kv.prefix import BlockHashes, salt_of

    return BlockHashes(BLOCK_TOKENS, salt_of("", "", "")).keys_for(SHARED, 4)


def test_a_launch_that_would_write_a_shared_block_is_our_own_mistake():
    bench = bench_of()
    ask(bench, SHARED)
    name = bench.submit(SHARED)
    bench.turn()
    bench.engine.step()
    request = bench.engine.requests[name]
    bench.device.complete()
    request.blocks[-1] = request.blocks[0]
    with pytest.raises(AssertionError, match="would write published blocks"):
        bench.run()


def test_audit_tells_cached_from_live_and_counts_it_as_reclaimable():
    bench = bench_of()
    ask(bench, SHARED)
    rows = {row.name: row for row in bench.engine.audit("drain")}
    assert (rows["kv_blocks.live"].value, rows["kv_blocks.cached"].value, rows["kv_blocks.cached"].kind) == (
        0,
        5,
        "cached",
    )
    assert (rows["kv_blocks.free"].value, rows["kv_blocks.free"].expected) == (32, 32)
    assert bench.pool.count().free == 27


def test_audit_counts_digests_that_no_block_holds():
    bench = bench_of()
    ask(bench, SHARED)
    (row,) = [row for row in bench.engine.audit("live") if row.name == "prefix_index.stale"]
    assert (row.value, row.expected, row.kind) == (0, 0, "live")
    bench.pool.index._blocks[b"left behind"] = 3
    (row,) = [row for row in bench.engine.audit("live") if row.name == "prefix_index.stale"]
    assert (row.value, row.expected) == (1, 0)


def test_tokens_are_the_same_with_and_without_the_cache_and_with_it_less_is_computed():
    work = []
    for cache in (False, True):
        bench = Bench(24, Limits(token_budget=16, seqs_max=3, waiting_max=64), prefix_cache=cache)
        prompts = {}
        for index in range(30):
            prompt = [*SHARED[: 4 * (index % 5)], *range(index % 3, index % 3 + 3), index % 7]
            prompts[bench.submit(prompt, max_tokens=1 + index % 9)] = prompt
            bench.turn()
        bench.run()
        for name, prompt in prompts.items():
            assert bench.sink.tokens[name] == expected_tokens(prompt, len(bench.sink.tokens[name])), name
            assert bench.sink.ended[name].end.outcome == "ok"
        work.append(computed(bench))
        healthy(bench)
    assert work[1] < 0.7 * work[0]
