"""One contract for all devices: what the engine may rely on in launches, with the device's own points fired."""

import dataclasses
import time

import pytest

from faults import FaultSpec, Scope, When, parse_do
from runtime.core.errors import DeviceLost, LaunchError
from runtime.core.work import Breach
from tests.contract.device.worlds import World, arm, launch, work


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
    began_ns = world.env.clock.now_ns()  # the delay begins a little before its ticket is made
    ticket = launch(world, 1)
    world.until(lambda: ticket.done)
    assert ticket.error is None
    assert ticket.done_ns is not None
    assert ticket.done_ns - began_ns >= 30_000_000


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
