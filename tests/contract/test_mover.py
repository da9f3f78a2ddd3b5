"""One contract for all movers: KV and tags of a request go to the host and come back into other blocks, whole, and
nobody else's bytes change."""

from collections.abc import Callable
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from runtime.core.work import Copy, Way
from runtime.device.host_bytes import HostBytes, SimMover
from runtime.device.ports import Mover
from runtime.device.torch_mover import TorchMover
from runtime.device.torch_segments import TorchSegments
from runtime.memory.kv.tags import TagPlane

BLOCKS, BLOCK_TOKENS, HOST_BYTES = 12, 4, 1 << 16


@dataclass
class World:
    """`kv` are arrays [blocks, ...] on the very memory that the mover moves."""

    mover: Mover
    plane: TagPlane
    kv: list[np.ndarray]

    def seen(self, block: int) -> list[bytes]:
        """All that a block holds."""
        return [one[block].tobytes() for one in (*self.kv, self.plane.rows, self.plane._sums)]


def sim() -> World:
    host, plane = HostBytes(HOST_BYTES), TagPlane(BLOCKS, BLOCK_TOKENS)
    assert host.reserve("io", 0, HOST_BYTES)
    slots = np.zeros((BLOCKS, BLOCK_TOKENS), np.uint64)
    return World(SimMover(host, "io", slots, plane), plane, [slots])


def on_torch() -> World:
    host, plane = TorchSegments(), TagPlane(BLOCKS, BLOCK_TOKENS)
    assert host.reserve("io", 0, HOST_BYTES)
    stores = [torch.zeros(BLOCKS + 1, 2, BLOCK_TOKENS, 3) for _ in range(3)]
    return World(TorchMover(host, "io", stores, plane), plane, [one.numpy() for one in stores])


WORLDS: dict[str, Callable[[], World]] = {"sim": sim, "torch": on_torch}


@pytest.mark.parametrize("name", sorted(WORLDS))
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_what_went_out_comes_back_into_other_blocks_and_the_rest_is_untouched(
    name: str, data: st.DataObject, seed: int
):
    world = WORLDS[name]()
    rng = np.random.default_rng(seed)
    for one in world.kv:
        one[...] = rng.integers(1, 1000, one.shape)
    world.plane.rows[...] = rng.integers(1, 2**63, world.plane.rows.shape, dtype=np.uint64)
    world.plane.resum(range(BLOCKS))
    blocks = data.draw(st.lists(st.integers(0, BLOCKS - 1), min_size=1, max_size=5, unique=True))
    others = data.draw(st.lists(st.integers(0, BLOCKS - 1), min_size=1, max_size=3, unique=True))
    targets = data.draw(st.permutations(range(BLOCKS)))[: len(blocks)]
    held = [world.seen(block) for block in blocks]
    other = [world.seen(block) for block in others]
    room = world.mover.block_bytes
    world.mover.move(Copy("a", Way.OUT, blocks, 0, 64))
    world.mover.move(Copy("b", Way.OUT, others, 0, 64 + len(blocks) * room))
    for one in (*world.kv, world.plane.rows):
        one[...] = 7
    world.plane.resum(range(BLOCKS))
    before = [world.seen(block) for block in range(BLOCKS)]
    world.mover.move(Copy("a", Way.IN, targets, 0, 64))
    assert [world.seen(block) for block in targets] == held
    rest = [block for block in range(BLOCKS) if block not in targets]
    assert [world.seen(block) for block in rest] == [before[block] for block in rest]
    targets = data.draw(st.permutations(range(BLOCKS)))[: len(others)]
    world.mover.move(Copy("b", Way.IN, targets, 0, 64 + len(blocks) * room))
    assert [world.seen(block) for block in targets] == other, "what lies beside it on the host was not overwritten"


@pytest.mark.parametrize("name", sorted(WORLDS))
def test_a_copy_past_the_end_of_its_segment_is_refused(name: str):
    world = WORLDS[name]()
    offset = HOST_BYTES - world.mover.block_bytes
    with pytest.raises((AssertionError, RuntimeError)):
        world.mover.move(Copy("a", Way.OUT, [0, 1], 0, offset))
