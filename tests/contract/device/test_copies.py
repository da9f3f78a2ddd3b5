"""One contract for all devices: what the engine may rely on in copies to the host and back, among launches."""

import pytest

from runtime.core.errors import DeviceLost, LaunchError
from runtime.core.ports import Ticket
from runtime.core.work import Copy, Way
from tests.contract.device.worlds import World, arm, launch


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
