"""KV on the host survives what happens to the pool around it: ends of others, defragmentation, a defrag that fails."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis.stateful import invariant, precondition, rule

from faults import Catalogue, Faults, FaultSpec, When, parse_do
from runtime.core.env import Env
from runtime.core.errors import OutOfBlocks, SwapRefused
from runtime.core.ledger import Ledger
from runtime.core.owner import Owner
from runtime.core.ports import Ticket
from runtime.core.work import Copy
from runtime.device.torch_mover import TorchMover
from runtime.device.torch_segments import TorchSegments
from runtime.memory.host import HostMemory, HostSegments
from runtime.memory.kv.paged import PagedPool
from runtime.memory.kv.points import POINTS
from runtime.memory.kv.swap import Swapped
from runtime.memory.maintenance import EVERY_NS, MaintenanceLoop
from runtime.memory.spans.failures import DefragFailed
from runtime.memory.spans.points import POINTS as ALLOC_POINTS
from runtime.memory.spans.usage import MemoryFigures
from tests.runtime.fakes import SetClock
from tests.runtime.memory.spans.bench import check
from tests.steps import CountedMachine, machine_settings

BLOCKS, SWAP_BLOCKS = 24, 40


class Hosted(CountedMachine):
    """Requests of 1 to 9 blocks go to the host and come back, in any order; each value is its owner's own."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = SetClock()
        known = Catalogue((*POINTS, *ALLOC_POINTS))
        self.faults = Faults(known, self.clock.now_ns, lambda fire: None, lambda state: None)
        self.env = Env(self.clock, 0, self.faults, Ledger())
        self.pool = PagedPool(self.env, BLOCKS, 4)
        self.segments = TorchSegments()
        self.keys = torch.zeros(BLOCKS, 2, 4, 1024)
        self.mover = TorchMover(self.segments, "io", [self.keys], self.pool.plane)
        self.flying: list[tuple[Ticket, Copy]] = []
        segments = HostSegments(self.segments, self.mover.block_bytes, self.segments.move)
        self.host = HostMemory(self.env, self.pool, segments, SWAP_BLOCKS, self.copy)
        assert self.host.swap is not None
        self.swap = self.host.swap
        self.maintenance = MaintenanceLoop(self.env, self.host, lambda: None, 0, lambda free: MemoryFigures())
        self.out: dict[str, Swapped] = {}
        self.value: dict[str, int] = {}
        self.count = 0

    def copy(self, copy: Copy) -> Ticket:
        """The copy is made when the ticket completes, from where the span was then said to be."""
        ticket = Ticket(len(self.flying), copy, self.clock.now_ns())
        self.flying.append((ticket, copy))
        return ticket

    @rule(blocks=st.integers(1, 9))
    def send(self, blocks: int) -> None:
        name = f"chat-{self.count}"
        try:
            taken, _ = self.pool.take(Owner(name), blocks)
        except OutOfBlocks:
            return
        self.count += 1
        self.keys[taken] = self.value[name] = self.count
        try:
            self.out[name] = self.swap.swap_out(Owner(name), taken)
        except SwapRefused:
            self.pool.release(Owner(name), taken, None)

    @rule()
    def complete(self) -> None:
        for ticket, copy in self.flying:
            self.mover.move(copy)
            ticket.done_ns = self.clock.now_ns()
            self.env.ledger.complete(ticket)
        self.flying.clear()
        self.env.ledger.settle()

    @precondition(lambda self: self.out and not self.flying)
    @rule(data=st.data())
    def bring(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.out)))
        swapped = self.out[name]
        try:
            taken, _ = self.pool.take(Owner(name), swapped.blocks)
        except OutOfBlocks:
            return
        self.keys[taken] = -1
        ticket = self.swap.swap_in(Owner(name), swapped, taken)
        self.complete()
        assert self.keys[taken].eq(self.value[name]).all(), f"{name} came back with other bytes"
        self.swap.free(self.out.pop(name), ticket)
        self.pool.release(Owner(name), taken, None)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.out)))
        swapped = self.out.pop(name)
        self.swap.free(swapped, swapped.ticket)

    @precondition(lambda self: not self.flying)
    @rule(overlap=st.booleans())
    def defrag(self, overlap: bool) -> None:
        """As the maintenance does in the top band."""
        self.faults.clean()
        self.host.pool.defrag(self.host.move, self.swap.barrier(), overlap=overlap)

    @precondition(lambda self: self.flying)
    @rule()
    def ask_for_a_defrag_under_a_copy(self) -> None:
        with pytest.raises(DefragFailed):
            self.swap.barrier()

    @rule(broken=st.booleans())
    def tend(self, broken: bool) -> None:
        self.faults.clean()
        if broken:
            spec = FaultSpec(id="f", n=0, do=parse_do("memory.defrag: error"), place="in_flight", when=When(skip=1))
            self.faults.arm([spec])
        before = self.env.counters.total["memory.defrag_failed"]
        self.clock.t_ns += EVERY_NS
        self.maintenance.turn()
        fired = any(state.fired for state in self.faults.states())
        assert self.env.counters.total["memory.defrag_failed"] == before + fired, "each failure is told, and none else"

    @invariant()
    def who_is_out_holds_one_span_and_nobody_else_does(self) -> None:
        held = {request.owner: span for span, request in self.host.pool.live()}
        assert held == {name: swapped.span for name, swapped in self.out.items()}
        check(self.host.pool)

    @invariant()
    def what_has_arrived_is_whole(self) -> None:
        if not self.flying:
            for name, swapped in self.out.items():
                keys = self.segments.view(swapped.span, torch.float32, (swapped.blocks * 2 * 4 * 1024,))
                assert keys.eq(self.value[name]).all(), name


TestHosted = Hosted.TestCase
TestHosted.settings = machine_settings(runs=60, steps=40)
