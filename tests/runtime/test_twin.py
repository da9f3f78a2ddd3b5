"""The twin is the same engine: a recorded live run and its virtual replay make the same plans, step by step.

The live run has a real model, a device thread and arrivals in real time. Recorded are the turns at which requests and
cancels came in, and the turns from one launch to the next. The replay gets them back as arrivals and durations; its
model is the keyed one, so tokens differ, and nothing else may.
"""

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from faults import DisabledFaults
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.messages import Cancel, Mail, Mailbox, Output, Submit
from runtime.core.ports import Clock, Device, Ticket
from runtime.core.work import Claims, Copy, Sampling, Work
from runtime.device.hash_model import HashModel
from runtime.device.host_bytes import HostBytes, SimMover
from runtime.device.sim import SimDevice
from runtime.device.virtual_time import VirtualTime
from runtime.engine import Engine
from runtime.guard.watchdog import Bounds
from runtime.memory.host import HostMemory, HostSegments
from runtime.memory.kv.paged import PagedPool
from runtime.scheduling.preemption import Mode
from runtime.scheduling.scheduler import Limits

BLOCKS, BLOCK_TOKENS = 22, 8
REQUESTS = 24
LIMITS = Limits(token_budget=48, seqs_max=6, waiting_max=100, expected_output=0.0)
SWAP_BLOCKS = 60
FAR_NS = 1 << 62
Plan = tuple[tuple[str, int, int, tuple[int, ...]], ...]  # per row: request, new tokens, context, blocks


@dataclass
class Tape:
    """What is recorded of a live run. A turn is one call of `Engine.step`, stamped when it takes its mail."""

    turns_ns: list[int] = field(default_factory=list)
    came: list[tuple[int, Mail]] = field(default_factory=list)  # turn, mail
    plans: list[Plan] = field(default_factory=list)
    block_bytes: int = 0
    launched: list[int] = field(default_factory=list)  # turn of each launch and copy
    landed: dict[int, int] = field(default_factory=dict)  # launch or copy -> turn that settled it


class TapedMailbox(Mailbox):
    def __init__(self, clock: Clock, tape: Tape) -> None:
        super().__init__(1000)
        self._clock, self._tape = clock, tape

    def take(self) -> list[Mail]:
        mail = super().take()
        self._tape.turns_ns.append(self._clock.now_ns())
        self._tape.came += [(len(self._tape.turns_ns) - 1, one) for one in mail]
        return mail


class TapedLedger(Ledger):
    tape: Tape

    def settle(self) -> list[Ticket]:
        done = super().settle()
        for ticket in done:
            self.tape.landed[ticket.seq - 1] = len(self.tape.turns_ns) - 1
        return done


class TapedDevice:
    def __init__(self, device: Device, tape: Tape) -> None:
        self._device, self._tape = device, tape

    def launch(self, work: Work, reads: Claims, writes: Sequence[int]) -> Ticket:
        lengths = (work.row_starts[1:] - work.row_starts[:-1]).tolist()
        rows = zip(work.request_ids, lengths, work.context_lens.tolist(), work.block_tables, strict=True)
        self._tape.plans.append(tuple((name, length, context, tuple(table)) for name, length, context, table in rows))
        self._tape.launched.append(len(self._tape.turns_ns) - 1)
        return self._device.launch(work, reads, writes)

    def copy(self, copy: Copy) -> Ticket:
        self._tape.plans.append(((f"{copy.way} {copy.request_id}", 0, copy.offset, tuple(copy.blocks)),))
        self._tape.launched.append(len(self._tape.turns_ns) - 1)
        return self._device.copy(copy)

    def holds(self, ticket: Ticket) -> bool:
        return self._device.holds(ticket)

    def close(self) -> None:
        self._device.close()


class Counted:
    """A sink that counts ends."""

    def __init__(self) -> None:
        self.ended: dict[str, str] = {}

    def step(self, outputs: list[Output]) -> None:
        self.ended |= {output.request_id: output.ended.end.outcome for output in outputs if output.ended}


def live(tape: Tape, limits: Limits) -> dict[str, str]:
    """Requests of several sizes come while others run, some leave, and the pool is too small for all."""
    torch = pytest.importorskip("torch")
    from runtime.build import WallClock
    from runtime.device.cpu import CpuDevice
    from runtime.device.torch_mover import TorchMover
    from runtime.device.torch_segments import TorchSegments
    from runtime.models.config import read_config
    from runtime.models.decoder import Decoder
    from runtime.models.default import default_model
    from runtime.models.kv import PagedKv
    from runtime.models.loader import load_weights
    from runtime.models.runner import ModelRunner

    assert torch
    clock = WallClock()
    mailbox = TapedMailbox(clock, tape)
    ledger = TapedLedger(mailbox.wake)
    ledger.tape = tape
    env = Env(clock, 0, DisabledFaults(), ledger)
    pool = PagedPool(env, BLOCKS, BLOCK_TOKENS)
    directory = default_model()
    config = read_config(directory)
    model = ModelRunner(Decoder(config, load_weights(directory, config)), PagedKv(config, BLOCKS, BLOCK_TOKENS))
    host = TorchSegments()
    mover = TorchMover(host, "io", (*model.kv.keys, *model.kv.values), pool.plane)
    device = CpuDevice({"": model}, pool.plane, env, threads=1, mover=mover)
    taped = TapedDevice(device, tape)
    tape.block_bytes = mover.block_bytes
    segments = HostSegments(host, mover.block_bytes, host.move)
    swap = HostMemory(env, pool, segments, SWAP_BLOCKS, taped.copy).swap
    sink = Counted()
    engine = Engine(env, taped, pool, sink, mailbox, limits, Bounds(60.0, 600.0), swap)
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            engine.step()
            mailbox.wait(engine.wait_s())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    for n in range(REQUESTS):
        prompt = tuple((n * 31 + at * 7) % 200 for at in range(5 + n * 13 % 60))
        submit = Submit(f"r{n}", prompt, 8 + n * 5 % 50, Sampling(), clock.now_ns(), FAR_NS)
        assert mailbox.offer(submit)
        if n % 6 == 5:
            mailbox.post(Cancel(f"r{n - 2}"))
        if n == 0:  # the first launch takes long, and nobody shall come meanwhile
            _wait(lambda: len(sink.ended) == 1)
        _some_launches_later(tape, n % 4, lambda came=n + 1: len(sink.ended) == came)
    _wait(lambda: len(sink.ended) == REQUESTS)
    over.set()
    mailbox.wake()
    thread.join(10)
    device.close()
    return sink.ended


def _some_launches_later(tape: Tape, launches: int, all_over: Callable[[], bool]) -> None:
    """Arrivals are spread over launches and not over seconds, so that a busy machine meets them alike."""
    due = len(tape.launched) + launches
    _wait(lambda: len(tape.launched) >= due or all_over())


def _wait(met: Callable[[], bool]) -> None:
    patience_s = time.monotonic() + 60
    while not met() and time.monotonic() < patience_s:
        time.sleep(0.005)


@dataclass
class Recorded:
    """Costs of launches and copies: from the turn that launched it, or that saw the one before it done, to the turn
    that saw it done. Two that were seen at one turn are a nanosecond apart."""

    tape: Tape
    n: int = 0

    def cost_ns(self, work: Work) -> int:
        return self._next_ns()

    def copy_ns(self, seq: int, blocks: int) -> int:
        return self._next_ns()

    def _next_ns(self) -> int:
        turns, at = self.tape.turns_ns, self.n
        self.n += 1
        began = max(self.tape.launched[at], self.tape.landed.get(at - 1, 0))
        return max(1, turns[self.tape.landed[at]] - turns[began])


def replay(tape: Tape, limits: Limits) -> tuple[list[Plan], dict[str, str]]:
    """The same arrivals and durations, in virtual time."""
    clock, again, sink, stirred = VirtualTime(), Tape(), Counted(), [True]
    mailbox = Mailbox(1000)
    env = Env(clock, 0, DisabledFaults(), Ledger(lambda: stirred.append(True)))
    pool = PagedPool(env, BLOCKS, BLOCK_TOKENS)
    model, host = HashModel(BLOCKS, BLOCK_TOKENS, 1), HostBytes(1 << 30)
    device = SimDevice(
        {"": model}, pool.plane, env, clock, Recorded(tape), SimMover(host, "io", model.rows, pool.plane)
    )
    taped = TapedDevice(device, again)
    # As many bytes a block as live, so that host memory is as full at every step.
    segments = HostSegments(host, tape.block_bytes, host.move)
    swap = HostMemory(env, pool, segments, SWAP_BLOCKS, taped.copy).swap
    engine = Engine(env, taped, pool, sink, mailbox, limits, Bounds(60.0, 600.0), swap)
    for turn, mail in tape.came:

        def come(mail: Mail = mail) -> None:
            assert mailbox.offer(mail) if isinstance(mail, Submit) else not mailbox.post(mail)
            stirred.append(True)

        clock.at(tape.turns_ns[turn], come)
    while clock.next_ns is not None or stirred:
        if stirred and clock.next_ns != clock.now_ns():
            stirred.clear()
            engine.step()
        else:
            clock.step()
    return again.plans, sink.ended


@pytest.mark.parametrize("mode", [Mode.SWAP, Mode.RECOMPUTE])
def test_a_recorded_live_run_and_its_virtual_replay_make_the_same_plans_step_by_step(mode: Mode):
    tape, limits = Tape(), replace(LIMITS, preemption=mode)
    ended = live(tape, limits)
    plans, ended_again = replay(tape, limits)
    copies = [plan for plan in tape.plans if plan[0][0].startswith(("in ", "out "))]
    assert bool(copies) == (mode is Mode.SWAP)
    assert len(ended) == REQUESTS
    met = {bisect_right(tape.launched, turn) for turn, _ in tape.came}
    assert len(met) > 8, "most came between the same two launches, so their moments prove nothing"
    assert "cancelled" in ended.values()
    assert len(tape.plans) > 50
    for step, (was, now) in enumerate(zip(tape.plans, plans, strict=False)):
        assert was == now, f"step {step} parts"
    assert len(plans) == len(tape.plans)
    assert ended_again == ended
