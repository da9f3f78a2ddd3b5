"""One contract for all devices: what the engine may rely on, launches and copies, with the device's own points fired.

A new device adds itself to WORLDS; its world says how to wait until something is done (a live one waits on the ledger's
wake-up, a virtual one moves its clock).
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pytest

from faults import Catalogue, Do, Faults, FaultSpec, When, parse_do
from runtime.core.env import Env
from runtime.core.errors import DeviceLost, LaunchError
from runtime.core.ledger import Ledger
from runtime.core.ports import Device, Ticket
from runtime.core.work import Breach, Claim, Copy, Sampled, Sampling, Way, Work
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

    def verify(self, work: Work, reads: Sequence[Claim]) -> tuple[Breach, ...]:
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
        catalogue = Catalogue()
        for point in POINTS:
            catalogue.declare(point)
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
        catalogue = Catalogue()
        for point in POINTS:
            catalogue.declare(point)
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


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = WORLDS[request.param]()
    yield made
    made.env.faults.heal_all("shutdown")
    made.device.close()


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
        block_tables=tuple((row,) for row in range(len(rows))),
        sampling=(Sampling(),) * len(rows),
        lineages=(0,) * len(rows),
    )


def arm(world: World, do: str, place: str = "before", **when: object) -> None:
    parsed: Do = parse_do(do)
    world.env.faults.arm([FaultSpec(id="f", n=0, do=parsed, place=place, when=When(**when))])


def launch(world: World, step: int, rows: Sequence[int] = (1, 1)) -> Ticket:
    return world.device.launch(work(step, rows), (), ())


def test_launches_run_in_order_and_each_ticket_is_reported_once(world: World) -> None:
    tickets = [launch(world, step, (3, 1)) for step in range(20)]
    world.until(lambda: all(ticket.done for ticket in tickets))
    assert world.env.ledger.settle() == tickets
    assert world.env.ledger.settle() == []
    asked = [(what, step) for step in range(20) for what in ("verify", "run", "stamp")]
    assert world.journal.lines == asked
    for ticket in tickets:
        assert ticket.error is None
        assert ticket.result is not None
        assert [sampled and sampled.token for sampled in ticket.result.sampled] == [3, 11]
        assert ticket.done_ns is not None
        assert ticket.done_ns >= ticket.launched_ns


def test_breaches_of_the_tag_plane_come_back_with_the_result(world: World) -> None:
    world.journal.breaches = (Breach("r1", 7, 0, "content"),)
    ticket = launch(world, 1)
    world.until(lambda: ticket.done)
    assert ticket.result is not None
    assert ticket.result.breaches == world.journal.breaches


def test_a_model_that_raises_fails_its_own_ticket_and_leaves_no_tags(world: World) -> None:
    world.journal.raises[1] = ValueError("bad weights")
    failed, fine = launch(world, 1), launch(world, 2)
    world.until(lambda: fine.done)
    assert isinstance(failed.error, LaunchError)
    assert "ValueError: bad weights" in str(failed.error)
    assert failed.result is None
    assert ("stamp", 1) not in world.journal.lines
    assert fine.error is None


def test_an_unknown_model_key_is_refused_and_nothing_runs(world: World) -> None:
    import dataclasses

    with pytest.raises(LaunchError, match="no model 'other'"):
        world.device.launch(dataclasses.replace(work(1), model_key="other"), (), ())
    assert world.journal.lines == []


def test_error_before_raises_at_launch_and_nothing_runs(world: World) -> None:
    arm(world, "device.launch: error", times=1)
    with pytest.raises(LaunchError, match="injected"):
        launch(world, 1)
    after = launch(world, 2)
    world.until(lambda: after.done)
    assert [step for _, step in world.journal.lines] == [2, 2, 2]


def test_error_in_flight_fails_the_ticket_with_nothing_computed(world: World) -> None:
    arm(world, "device.launch: error", "in_flight", times=1)
    ticket = launch(world, 1)
    world.until(lambda: ticket.done)
    assert isinstance(ticket.error, LaunchError)
    assert world.journal.lines == [("verify", 1)]


def test_error_after_fails_the_ticket_though_all_was_computed(world: World) -> None:
    arm(world, "device.launch: error", "after", times=1)
    ticket = launch(world, 1)
    world.until(lambda: ticket.done)
    assert isinstance(ticket.error, LaunchError)
    assert ticket.result is None
    assert world.journal.lines == [("verify", 1), ("run", 1), ("stamp", 1)]


@pytest.mark.parametrize("place", ["before", "in_flight", "after"])
def test_launch_returns_at_once_while_one_hangs_and_healing_releases_all_in_order(world: World, place: str) -> None:
    arm(world, "device.launch: hang", place, times=1)
    tickets = [launch(world, step) for step in range(3)]
    assert not any(ticket.done for ticket in tickets)
    world.env.faults.heal("f", "harness")
    world.until(lambda: all(ticket.done for ticket in tickets))
    assert world.env.ledger.settle() == tickets
    assert all(ticket.error is None for ticket in tickets)


def test_a_delay_is_over_by_itself_and_changes_no_result(world: World) -> None:
    arm(world, "device.launch: delay 30ms", times=1)
    ticket = launch(world, 1)
    world.until(lambda: ticket.done)
    assert ticket.error is None
    assert ticket.done_ns is not None
    assert ticket.done_ns - ticket.launched_ns >= 30_000_000


def test_lost_device_fails_this_launch_and_refuses_all_later_ones(world: World) -> None:
    arm(world, "device.launch: lost", "in_flight", times=1)
    ticket = launch(world, 1)
    world.until(lambda: ticket.done)
    assert isinstance(ticket.error, DeviceLost)
    with pytest.raises(DeviceLost):
        launch(world, 2)


def test_a_dropped_completion_comes_back_when_healed_and_holds_up_nobody(world: World) -> None:
    arm(world, "device.complete: drop", times=1)
    lost, next_one = launch(world, 1), launch(world, 2)
    world.until(lambda: next_one.done)
    assert not lost.done
    assert ("stamp", 1) in world.journal.lines
    world.env.faults.heal("f", "harness")
    world.until(lambda: lost.done)
    assert lost.error is None
    assert world.env.ledger.settle() == [next_one, lost]


def test_faults_can_be_aimed_at_prefill_or_decode(world: World) -> None:
    from faults import Scope

    spec = FaultSpec(
        id="f", n=0, do=parse_do("device.launch: error"), place="in_flight", when=When(), scope=Scope(phase="prefill")
    )
    world.env.faults.arm([spec])
    decode, prefill = launch(world, 1, (1, 1)), launch(world, 2, (1, 4))
    world.until(lambda: prefill.done)
    assert decode.error is None
    assert isinstance(prefill.error, LaunchError)


def test_close_fails_what_is_queued_and_never_waits_for_a_hung_launch(world: World) -> None:
    arm(world, "device.launch: hang", "in_flight", times=1)
    hung = launch(world, 0)
    world.until(lambda: ("verify", 0) in world.journal.lines)
    queued = [launch(world, step) for step in (1, 2)]
    started_s = time.monotonic()
    world.device.close()
    assert time.monotonic() - started_s < 5.0
    assert all(isinstance(ticket.error, LaunchError) for ticket in queued)
    assert not hung.done
    with pytest.raises(LaunchError, match="closed"):
        launch(world, 3)
    world.env.faults.heal("f", "harness")
    world.until(lambda: hung.done)
    assert ("run", 0) not in world.journal.lines
    assert sorted(world.env.ledger.settle(), key=lambda ticket: ticket.seq) == [hung, *queued]


def test_closing_twice_is_closing_once(world: World) -> None:
    world.device.close()
    world.device.close()


# -- copies -----------------------------------------------------------------------------------------------------------


def copy(world: World, number: int, way: Way = Way.OUT) -> Ticket:
    """`number` is its offset, so that the journal tells which one it was."""
    return world.device.copy(Copy(f"r{number}", way, (1, 2), 0, number))


def test_copies_and_launches_run_in_the_order_in_which_they_came(world: World) -> None:
    tickets = [copy(world, 0), launch(world, 1), copy(world, 2, Way.IN), launch(world, 3)]
    world.until(lambda: tickets[-1].done)
    assert world.env.ledger.settle() == tickets
    ran = [line for line in world.journal.lines if line[0] in ("run", "move out", "move in")]
    assert ran == [("move out", 0), ("run", 1), ("move in", 2), ("run", 3)]
    assert all(ticket.error is None and ticket.done for ticket in tickets)


@pytest.mark.parametrize("way", list(Way))
@pytest.mark.parametrize("place", ["before", "in_flight", "after"])
def test_a_copy_fails_through_its_ticket_wherever_the_fault_lies(world: World, place: str, way: Way) -> None:
    point = {Way.OUT: "device.copy.d2h", Way.IN: "device.copy.h2d"}[way]
    arm(world, f"{point}: error", place, times=1)
    failed, fine = copy(world, 1, way), copy(world, 2, way)
    world.until(lambda: fine.done)
    assert isinstance(failed.error, LaunchError)
    assert fine.error is None
    moved = [number for what, number in world.journal.lines if what == f"move {way}"]
    assert moved == ([1, 2] if place == "after" else [2])


@pytest.mark.parametrize("way", list(Way))
def test_a_fault_of_one_way_leaves_the_other_alone(world: World, way: Way) -> None:
    other = {Way.OUT: "device.copy.h2d", Way.IN: "device.copy.d2h"}[way]
    arm(world, f"{other}: error", times=1)
    ticket = copy(world, 1, way)
    world.until(lambda: ticket.done)
    assert ticket.error is None


@pytest.mark.parametrize("point", ["device.copy.d2h", "device.copy.h2d"])
def test_a_dropped_copy_is_called_done_and_nothing_was_moved(world: World, point: str) -> None:
    arm(world, f"{point}: drop", times=1)
    tickets = [copy(world, 1, Way.OUT), copy(world, 2, Way.IN)]
    world.until(lambda: all(ticket.done for ticket in tickets))
    assert all(ticket.error is None for ticket in tickets)
    left = ("move in", 2) if point == "device.copy.d2h" else ("move out", 1)
    assert world.journal.lines == [left]


@pytest.mark.parametrize("place", ["before", "in_flight", "after"])
def test_a_copy_that_hangs_holds_up_what_comes_after_it_until_it_is_healed(world: World, place: str) -> None:
    arm(world, "device.copy.d2h: hang", place, times=1)
    tickets = [copy(world, 1), launch(world, 2)]
    assert not any(ticket.done for ticket in tickets)
    world.env.faults.heal("f", "harness")
    world.until(lambda: all(ticket.done for ticket in tickets))
    assert world.env.ledger.settle() == tickets
    assert all(ticket.error is None for ticket in tickets)


def test_a_delayed_copy_is_late_and_right(world: World) -> None:
    arm(world, "device.copy.h2d: delay 30ms", times=1)
    ticket = copy(world, 1, Way.IN)
    world.until(lambda: ticket.done)
    assert ticket.error is None
    assert ticket.done_ns is not None
    assert ticket.done_ns - ticket.launched_ns >= 30_000_000
    assert world.journal.lines == [("move in", 1)]


def test_a_lost_device_takes_no_copy(world: World) -> None:
    arm(world, "device.launch: lost", "in_flight", times=1)
    ticket = launch(world, 1)
    world.until(lambda: ticket.done)
    with pytest.raises(DeviceLost):
        copy(world, 2)


def test_a_closed_device_fails_the_copies_that_wait_and_takes_no_other(world: World) -> None:
    arm(world, "device.copy.d2h: hang", "in_flight", times=1)
    hung, queued = copy(world, 1), copy(world, 2)
    world.until(lambda: bool(world.fires))
    world.device.close()
    assert isinstance(queued.error, LaunchError)
    with pytest.raises(LaunchError, match="closed"):
        copy(world, 3)
    world.env.faults.heal("f", "harness")
    world.until(lambda: hung.done)
    assert isinstance(hung.error, LaunchError)
    assert world.journal.lines == []
