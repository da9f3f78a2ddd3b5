"""The devices under the contract, each in a world that runs it, and what its tests ask of them.

A new device adds itself to WORLDS; its world says how to wait until something is done (a live one waits on the ledger's
wake-up, a virtual one moves its clock).
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from faults import Catalogue, Do, Faults, FaultSpec, When, parse_do
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.ports import Device, Ticket
from runtime.core.work import Breach, Claims, Copy, Sampled, Sampling, Work
from runtime.device.cpu import CpuDevice
from runtime.device.points import POINTS
from runtime.device.sim import SimDevice
from runtime.device.virtual_time import VirtualTime

_PATIENCE_S = 20.0


class MonotonicClock:
    def now_ns(self) -> int:
        return time.monotonic_ns()


class Journal:
    """Plays model and tag plane, and writes down what the device asked of them, in order."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int]] = []
        self.breaches: tuple[Breach, ...] = ()
        self.raises: dict[int, Exception] = {}

    def verify(self, work: Work, reads: Claims) -> tuple[Breach, ...]:
        self.lines.append(("verify", work.step))
        return self.breaches

    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        self.lines.append(("run", work.step))
        if work.step in self.raises:
            raise self.raises[work.step]
        return tuple(Sampled(int(work.token_ids[end - 1]) + 1) for end in work.row_starts[1:])

    def stamp(self, work: Work) -> None:
        self.lines.append(("stamp", work.step))

    @property
    def block_bytes(self) -> int:
        return 64

    def move(self, copy: Copy) -> None:
        self.lines.append((f"move {copy.way}", copy.offset))


class World(Protocol):
    device: Device
    env: Env
    journal: Journal
    fires: list[object]

    def until(self, met: Callable[[], bool]) -> None: ...


class CpuWorld:
    """A CpuDevice over a journal; `until` waits for the ledger's wake-up."""

    def __init__(self) -> None:
        catalogue = Catalogue(POINTS)
        clock = MonotonicClock()
        self._woken = threading.Condition()
        self.fires: list[object] = []
        faults = Faults(catalogue, clock.now_ns, self._fired, lambda state: None)
        self.env = Env(clock=clock, seed=1, faults=faults, ledger=Ledger(self._wake))
        self.journal = Journal()
        self.device = CpuDevice({"": self.journal}, self.journal, self.env, mover=self.journal)

    def until(self, met: Callable[[], bool]) -> None:
        with self._woken:
            assert self._woken.wait_for(met, _PATIENCE_S), "nothing came"

    def _fired(self, fire: object) -> None:
        self.fires.append(fire)
        self._wake()

    def _wake(self) -> None:
        with self._woken:
            self._woken.notify_all()


class FlatCosts:
    """Every launch takes a millisecond."""

    def cost_ns(self, work: Work) -> int:
        return 1_000_000

    def copy_ns(self, seq: int, blocks: int) -> int:
        return 1_000_000


class SimWorld:
    """A SimDevice over a journal; `until` moves its clock, and never back."""

    def __init__(self) -> None:
        catalogue = Catalogue(POINTS)
        self.clock = VirtualTime()
        self.fires: list[object] = []
        faults = Faults(catalogue, self.clock.now_ns, self.fires.append, lambda state: None)
        self.env = Env(clock=self.clock, seed=1, faults=faults, ledger=Ledger())
        self.journal = Journal()
        self.device = SimDevice({"": self.journal}, self.journal, self.env, self.clock, FlatCosts(), self.journal)

    def until(self, met: Callable[[], bool]) -> None:
        while not met():
            assert self.clock.next_ns is not None, "nothing came"
            before_ns = self.clock.now_ns()
            self.clock.step()
            assert self.clock.now_ns() >= before_ns


WORLDS: dict[str, Callable[[], World]] = {"cpu": CpuWorld, "sim": SimWorld}


def work(step: int, rows: Sequence[int] = (1, 1)) -> Work:
    """`rows` are the new tokens of each row; row r's tokens are r * 10, r * 10 + 1, ..."""
    tokens = [row * 10 + index for row, count in enumerate(rows) for index in range(count)]
    starts = np.cumsum([0, *rows])
    return Work(
        step=step,
        model_key="",
        request_ids=tuple(f"r{row}" for row in range(len(rows))),
        token_ids=np.array(tokens),
        positions=np.concatenate([np.arange(count) for count in rows]),
        slots=np.arange(len(tokens)),
        row_starts=starts,
        context_lens=np.array(rows),
        block_tables=np.arange(len(rows))[:, None],
        sampling=(Sampling(),) * len(rows),
        prefix_hashes=np.zeros(len(rows), np.uint64),
    )


def arm(world: World, do: str, place: str = "before", **when: object) -> None:
    parsed: Do = parse_do(do)
    world.env.faults.arm([FaultSpec(id="f", n=0, do=parsed, place=place, when=When(**when))])


def launch(world: World, step: int, rows: Sequence[int] = (1, 1)) -> Ticket:
    return world.device.launch(work(step, rows), (), ())
