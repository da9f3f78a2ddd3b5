"""Shared blocks of the paged pool, one rule at a time; the machine beside it mixes them."""

import pytest

from faults import DisabledFaults, Do, Faults, FaultSpec, When
from runtime.core.env import Env
from runtime.core.errors import OutOfBlocks
from runtime.core.ledger import Ledger
from runtime.core.owner import Owner
from runtime.core.ports import Ticket
from runtime.memory.kv.counts import PoolCount
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.prefix import BlockKey
from runtime.points import catalogue
from tests.runtime.fakes import SetClock

A, B = b"a", b"b"


@pytest.fixture
def pool() -> PagedPool:
    return PagedPool(Env(SetClock(), 0, DisabledFaults(), Ledger()), 4, 4, prefix_cache=True)


def launch(seq: int) -> Ticket:
    return Ticket(seq, None, 0)  # type: ignore[arg-type]


def complete(pool: PagedPool, ticket: Ticket) -> None:
    ticket.done_ns = 1
    pool._env.ledger.complete(ticket)
    pool._env.ledger.settle()


def published(pool: PagedPool, key: BlockKey = A, owner: str = "a") -> int:
    """A block that `owner` holds and others may share."""
    (block,), (generation,) = pool.take(Owner(owner), 1)
    pool.publish(Owner(owner), [block], [generation], [key])
    return block


def test_a_block_that_two_launches_touch_waits_for_both_in_whatever_order_they_end(pool):
    for first_done in (0, 1):
        block, tickets = published(pool), [launch(1), launch(2)]
        pool.share(Owner("b"), [block])
        pool.release(Owner("a"), [block], tickets[0])
        assert pool.count() == PoolCount(1, 0, 3, 4), "held by b: live, and not in limbo besides"
        pool.release(Owner("b"), [block], tickets[1])
        assert pool.count() == PoolCount(0, 1, 3, 4)
        complete(pool, tickets[first_done])
        assert pool.count() == PoolCount(0, 1, 3, 4)
        complete(pool, tickets[1 - first_done])
        assert pool.count() == PoolCount(0, 0, 3, 4, cached=1)
        pool.unpublish(block)


def test_a_block_in_limbo_of_two_that_end_together_goes_back_once(pool):
    block, ticket = published(pool), launch(1)
    pool.share(Owner("b"), [block])
    for owner in "ab":
        pool.release(Owner(owner), [block], ticket)
    pool.unpublish(block)
    complete(pool, ticket)
    assert sorted(pool._free) == [0, 1, 2, 3]


def test_the_last_holder_without_a_launch_does_not_free_what_the_launch_of_another_reads(pool):
    block, ticket = published(pool), launch(1)
    pool.share(Owner("b"), [block])
    pool.release(Owner("a"), [block], ticket)
    pool.release(Owner("b"), [block], None)
    assert pool.count() == PoolCount(0, 1, 3, 4)
    with pytest.raises(OutOfBlocks):
        pool.take(Owner("c"), 4)
    complete(pool, ticket)
    assert len(pool.take(Owner("c"), 4)[0]) == 4


def test_found_in_limbo_it_is_live_again_and_the_end_of_the_launch_changes_nothing(pool):
    block, ticket = published(pool), launch(1)
    pool.release(Owner("a"), [block], ticket)
    pool.share(Owner("b"), [block])
    complete(pool, ticket)
    assert pool.count() == PoolCount(1, 0, 3, 4)
    pool.release(Owner("b"), [block], None)
    assert pool.count().cached == 1


def test_when_even_all_cached_blocks_are_too_few_none_is_evicted(pool):
    pool.release(Owner("a"), [published(pool)], None)
    pool.take(Owner("b"), 2)
    with pytest.raises(OutOfBlocks, match="1 are free and 1 cached"):
        pool.take(Owner("c"), 3)
    assert pool.index.knows(A)
    assert pool._env.counters.total["kv.evict"] == 0


def test_the_generation_that_readers_claim_is_the_published_one_even_if_the_block_was_given_on_by_mistake(pool):
    block = published(pool)
    pool.plane.hand_out([block])
    assert pool.share(Owner("b"), [block]) == [1]


def test_a_damaged_block_leaves_the_index_and_is_free_when_nobody_holds_it(pool):
    idle, held = published(pool, A), published(pool, B)
    pool.release(Owner("a"), [idle], None)
    pool.unpublish(idle)
    pool.unpublish(held)
    assert pool.count() == PoolCount(1, 0, 3, 4)
    pool.release(Owner("a"), [held], None)
    assert pool.count() == PoolCount(0, 0, 4, 4)


def test_a_block_that_was_freed_by_mistake_is_not_found_under_its_old_name_and_its_second_owner_is_told(pool):
    block = published(pool)
    pool._free.append(block)
    assert pool.take(Owner("b"), 1)[0] == [block]
    assert not pool.index.knows(A)
    (told,) = pool._env.events.take()
    assert (told.value, told.detail) == ("kv.given_twice", f"b is given blocks that are held: [{block}]")


@pytest.mark.parametrize("taken", [(), (0,), (1,)])
def test_to_publish_several_is_to_publish_each(taken):
    pools = [PagedPool(Env(SetClock(), 0, DisabledFaults(), Ledger()), 4, 4, prefix_cache=True) for _ in range(2)]
    for pool in pools:
        for key in taken:
            published(pool, (A, B)[key], "before")
    blocks, generations = pools[0].take(Owner("a"), 2)
    pools[1].take(Owner("a"), 2)
    assert pools[0].publish(Owner("a"), blocks, generations, [A, B]) == 0
    for block, generation, key in zip(blocks, generations, [A, B], strict=True):
        pools[1].publish(Owner("a"), [block], [generation], [key])
    assert vars(pools[0].index) == vars(pools[1].index)


def test_to_publish_several_crosses_the_point_for_each_and_counts_what_nobody_can_find():
    faults = Faults(catalogue(), lambda: 0, lambda fire: None, lambda state: None)
    pool = PagedPool(Env(SetClock(), 0, faults, Ledger()), 4, 4, prefix_cache=True)
    blocks, generations = pool.take(Owner("a"), 2)
    faults.arm([FaultSpec(id="lost", n=0, do=Do("kv.publish", "drop"), when=When(times=1))])
    assert pool.publish(Owner("a"), blocks, generations, [A, B]) == 1
    assert not pool.index.knows(A) and pool.index.knows(B)


def test_what_is_freed_by_mistake_while_published_is_found_by_nobody_once_it_is_taken_again(pool):
    block = published(pool)
    pool._env.ledger.release(pool.name, "a", [block])
    pool._free.append(block)
    assert pool.take(Owner("b"), 1)[0] == [block]
    assert not pool.index.knows(A)
