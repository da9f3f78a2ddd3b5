"""A launch that hangs on the real device: requests end at their deadline meanwhile, and their blocks wait for it."""

from collections.abc import Iterator

import pytest

from faults import Do, Faults, FaultSpec
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.messages import Mailbox, Submit
from runtime.core.work import Sampled, Sampling, Work
from runtime.device.cpu import CpuDevice
from runtime.engine import Engine
from runtime.guard.watchdog import Bounds
from runtime.memory.kv.paged import PagedPool
from runtime.points import catalogue
from runtime.scheduling.scheduler import Limits
from tests.runtime.fakes import BLOCK_TOKENS, SECOND, Heard, SetClock

WAIT_S = 20.0


class Echo:
    """A model that always says 7."""

    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        return tuple(None if sampling is None else Sampled(7) for sampling in work.sampling)


class Live:
    """The real device and engine on a clock that only we move."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.mailbox = Mailbox(100)
        self.faults = Faults(catalogue(), self.clock.now_ns, lambda fire: None, lambda state: None)
        self.env = Env(self.clock, 0, self.faults, Ledger(self.mailbox.wake))
        self.pool = PagedPool(self.env, 4, BLOCK_TOKENS)
        self.device = CpuDevice({"": Echo()}, self.pool.plane, self.env)
        self.sink = Heard()
        limits = Limits(token_budget=64, seqs_max=4, waiting_max=8)
        bounds = Bounds(late_s=1.0, hang_fatal_s=100.0)
        self.engine = Engine(self.env, self.device, self.pool, self.sink, self.mailbox, limits, bounds)

    def submit(self, name: str, deadline_s: float) -> None:
        deadline_ns = self.clock.now_ns() + int(deadline_s * SECOND)
        assert self.mailbox.offer(Submit(name, tuple(range(8)), 2, Sampling(), self.clock.now_ns(), deadline_ns))

    def run_until_ended(self, name: str) -> None:
        while name not in self.sink.ended:
            self.engine.step()
            if name not in self.sink.ended:
                self.mailbox.wait(WAIT_S)


@pytest.fixture
def live() -> Iterator[Live]:
    made = Live()
    yield made
    made.faults.heal_all("test over")
    made.device.close()


def test_requests_end_at_their_deadline_while_the_launch_hangs_and_their_blocks_are_not_reused_before_its_release(live):
    live.faults.arm([FaultSpec(id="hang", n=0, do=Do("device.launch", "hang", "20s"))])
    live.submit("inside", deadline_s=5)
    live.engine.step()
    live.clock.advance(6)
    live.submit("next", deadline_s=50)
    live.engine.step()

    assert live.sink.ended["inside"].end.http == 504
    assert live.engine.status.flight_ns is not None, "it still hangs"
    assert (live.pool.count().limbo, live.pool.count().free) == (2, 2)
    assert live.env.counters.total["guard.cancelled"] == 1
    assert live.env.counters.total["device.late"] == 1

    assert live.faults.heal("hang", "harness") == 1
    live.run_until_ended("next")
    assert live.sink.ended["next"].end.outcome == "ok"
    assert live.sink.tokens["inside"] == []
    assert live.pool.count().free == 4


def test_cancel_during_a_hang_is_answered_at_once(live):
    from runtime.core.messages import Cancel

    live.faults.arm([FaultSpec(id="hang", n=0, do=Do("device.launch", "hang", "20s"))])
    live.submit("gone", deadline_s=50)
    live.engine.step()
    live.mailbox.post(Cancel("gone"))
    live.engine.step()
    assert live.sink.ended["gone"].end.outcome == "cancelled"
    assert live.pool.count().limbo == 2
