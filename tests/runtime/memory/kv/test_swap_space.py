"""KV on the host when a release is lost: the span stays with its owner, and nothing else changes."""

import random

import pytest

from faults import Catalogue, Faults, FaultSpec, When, parse_do
from faults.spec import Scope
from runtime.core.env import Env
from runtime.core.errors import LaunchError, SwapRefused
from runtime.core.ledger import Ledger
from runtime.core.owner import Owner
from runtime.core.ports import Ticket
from runtime.core.work import Copy
from runtime.device.host_bytes import HostBytes
from runtime.memory.host import HostMemory, HostSegments
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.points import POINTS as KV_POINTS
from runtime.memory.kv.swap import Swapped
from runtime.memory.spans.points import POINTS as SPAN_POINTS
from tests.runtime.fakes import SetClock

BLOCK_BYTES, SWAP_BLOCKS = 65536, 40


class Host:
    """A swap space whose copies are done at once, or refused."""

    def __init__(self) -> None:
        clock, catalogue = SetClock(), Catalogue((*KV_POINTS, *SPAN_POINTS))
        faults = Faults(catalogue, clock.now_ns, lambda fire: None, lambda state: None)
        self.env = Env(clock, 0, faults, Ledger())
        self.refused = False
        self.kv = PagedPool(self.env, 256, 4)
        self.bytes = HostBytes(1 << 24)
        segments = HostSegments(self.bytes, BLOCK_BYTES, self.bytes.move)
        self.memory = HostMemory(self.env, self.kv, segments, SWAP_BLOCKS, self.copy)
        assert self.memory.swap is not None
        self.swap = self.memory.swap

    def copy(self, copy: Copy) -> Ticket:
        if self.refused:
            raise LaunchError("no")
        return Ticket(1, copy, 0, done_ns=1)

    def out(self, owner: str, blocks: int) -> Swapped | None:
        held, _ = self.kv.take(Owner(owner), blocks)
        try:
            return self.swap.swap_out(Owner(owner), held)
        except SwapRefused:
            self.kv.release(Owner(owner), held, None)
            return None

    def lose(self) -> None:
        """The next release on the host is lost."""
        spec = FaultSpec(id="f", n=0, do=parse_do("memory.free: drop"), when=When(times=1), scope=Scope(pool="io"))
        self.env.faults.arm([spec])

    def on_host(self) -> list[str]:
        return [owner for pool, owner, _ in self.env.ledger.outstanding() if pool == "io"]


@pytest.mark.parametrize("undone", [False, True], ids=["given up", "undone"])
def test_a_lost_release_outlives_a_defragmentation(undone: bool):
    for seed in range(40):
        rng, host = random.Random(seed), Host()
        held = {name: one for n in range(12) if (one := host.out(name := f"o{n}", rng.randint(1, 9))) is not None}
        names = list(held)
        rng.shuffle(names)
        host.lose()
        if undone:
            host.refused = True
            host.out("lost", 1)
            host.refused = False
        for name in names[: len(names) // 2]:
            host.swap.free(held.pop(name), None)
        host.memory.pool.defrag(host.memory.move, None, overlap=True)
        assert len(set(host.on_host()) - held.keys()) <= 1
        for name in list(held):
            host.swap.free(held.pop(name), None)
        assert len(host.on_host()) <= 1, "what was moved is still known to its owner"


def test_a_lost_release_is_a_leak_that_a_later_swap_of_the_same_request_does_not_hide():
    host = Host()
    host.lose()
    for _ in range(2):
        swapped = host.out("r", 2)
        assert swapped is not None
        host.swap.free(swapped, None)
    assert host.on_host() == ["r"]
    assert "freed" not in host.env.ledger.history("r").split("alloc #1")[1].split("alloc #2")[0]
