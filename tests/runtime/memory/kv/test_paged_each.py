"""Blocks for several owners at once, held against the calls one by one on a pool that has lived through the same."""

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given

from faults import Do, Faults, FaultSpec, NullFaults
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.owner import Owner
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.prefix import BlockKey, KeyLine, salt_of
from runtime.points import catalogue
from tests.runtime.fakes import SetClock

BLOCKS, SIZE = 6, 4
KEYS = [KeyLine(SIZE, salt_of("", "", "")).reach([n] * SIZE, 1)[0] for n in range(BLOCKS)]
owners = st.lists(st.sampled_from("abc"), min_size=1, max_size=5)
blocks = st.integers(0, BLOCKS - 1)


class Twins:
    """Two pools: `batch` is asked for several at once, `single` one by one; all else is done to both."""

    def __init__(self) -> None:
        self.batch, self.single = (
            PagedPool(Env(SetClock(), 0, NullFaults(), Ledger()), BLOCKS, SIZE, prefix_cache=True) for _ in range(2)
        )
        self.held: dict[str, list[int]] = {}
        self.generations: dict[int, int] = {}

    def take(self, names: Sequence[str]) -> None:
        names = names[: self.batch.reclaimable]
        blocks, generations = self.batch.take_each([Owner(name) for name in names])
        assert [([block], [at]) for block, at in zip(blocks, generations, strict=True)] == [
            self.single.take(Owner(name), 1) for name in names
        ]
        for name, block in zip(names, blocks, strict=True):
            self.held.setdefault(name, []).append(block)
        self.generations.update(zip(blocks, generations, strict=True))

    def publish(self, keys: Sequence[BlockKey]) -> None:
        """Blocks that are held, now and then two of them under one key."""
        fresh = sorted({block for blocks in self.held.values() for block in blocks if self.batch.index.spares([block])})
        blocks, keys = fresh[: len(keys)], keys[: len(fresh)]
        generations = [self.generations[block] for block in blocks]
        self.batch.publish_each(blocks, generations, keys)
        for block, at, key in zip(blocks, generations, keys, strict=True):
            self.single.publish_all(Owner(""), [block], [at], [key])

    def release(self, name: str) -> None:
        for pool in (self.batch, self.single):
            pool.release(Owner(name), self.held.get(name, []), None)
        self.held.pop(name, None)

    def free_by_mistake(self, block: int) -> None:
        """It stays wherever else it is: held, published, at rest, or free once more."""
        for pool in (self.batch, self.single):
            pool._free.append(block)

    def hold_by_mistake(self, block: int) -> None:
        """Somebody holds it wherever else it is, and nobody else has heard of it."""
        for pool in (self.batch, self.single):
            pool._env.ledger.acquire(pool.name, "aside", [block])

    def check(self) -> None:
        one, other = map(_all_of, (self.batch, self.single))
        assert one == other


def _all_of(pool: PagedPool) -> list[object]:
    env, index = pool._env, pool.index
    holdings = [(owner, n, env.ledger.held(name, owner)) for name, owner, n in env.ledger.outstanding()]
    told = [env.marks.total, env.events._fresh]
    return [
        *told,
        holdings,
        dict(env.ledger.holders(pool.name)),
        pool._free,
        vars(index),
        list(index._idle),
        pool.plane._generations.tolist(),
    ]


@given(st.data())
def test_a_block_for_each_and_a_key_for_each_are_what_they_are_one_by_one(data: st.DataObject) -> None:
    twins = Twins()
    twins.take("abcabc"[: data.draw(st.integers(3, 6))])  # so that most of what follows finds a pool that is full
    twins.publish(data.draw(st.permutations(KEYS)))
    twins.release("a")
    for _ in range(data.draw(st.integers(1, 6))):
        if (step := data.draw(st.sampled_from(["publish", "release", "free", "hold"]))) == "publish":
            twins.publish(data.draw(st.lists(st.sampled_from(KEYS), min_size=1)))
        elif step == "release":
            twins.release(data.draw(st.sampled_from("abc")))
        elif data.draw(st.booleans()):
            (twins.free_by_mistake if step == "free" else twins.hold_by_mistake)(data.draw(blocks))
        twins.take(data.draw(owners))
        twins.check()


def test_several_are_not_asked_for_where_there_are_too_few() -> None:
    pool = Twins().batch
    pool.take(Owner("a"), BLOCKS - 1)
    with pytest.raises(AssertionError, match="pool kv does not have 2 blocks"):
        pool.take_each([Owner(name) for name in "bc"])


def test_several_are_not_asked_for_while_a_fault_is_armed_since_each_one_crosses_its_point() -> None:
    faults = Faults(catalogue(), lambda: 0, lambda fire: None, lambda state: None)
    pool = PagedPool(Env(SetClock(), 0, faults, Ledger()), BLOCKS, SIZE, prefix_cache=True)
    blocks, generations = pool.take_each([Owner(name) for name in "a"])
    faults.arm([FaultSpec(id="f", n=0, do=Do("kv.publish", "drop"))])
    with pytest.raises(AssertionError, match="by `publish`"):
        pool.publish_each(blocks, generations, KEYS[:1])
    with pytest.raises(AssertionError, match="by `take`"):
        pool.take_each([Owner(name) for name in "b"])
