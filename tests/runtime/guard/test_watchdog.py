from faults import DisabledFaults
from runtime.core.env import Env
from runtime.core.ledger import Ledger
from runtime.core.messages import End, Submit
from runtime.core.ports import Ticket
from runtime.core.work import Sampling
from runtime.guard.watchdog import Bounds, Watchdog
from runtime.memory.kv.tags import SequenceTable
from runtime.scheduling.request import Request
from tests.runtime.fakes import SECOND, SetClock


def dog(late_s: float = 1.0) -> tuple[Watchdog, Env]:
    env = Env(SetClock(), 0, DisabledFaults(), Ledger())
    return Watchdog(env, Bounds(late_s=late_s, hang_fatal_s=10.0)), env


def request(seq: int, deadline_s: float) -> Request:
    return Request(Submit(f"r{seq}", (1,), 1, Sampling(), 0, int(deadline_s * SECOND)), seq, SequenceTable(4))


class Flown:
    def __str__(self) -> str:
        return "step 7"


def flight(launched_ns: int = 0) -> Ticket:
    return Ticket(0, Flown(), launched_ns)  # type: ignore[arg-type]


def test_expired_come_earliest_first_and_those_that_ended_do_not_come():
    watchdog, _ = dog()
    late, early, ended = request(0, 5), request(1, 3), request(2, 4)
    for one in (late, early, ended):
        watchdog.watch(one)
    ended.ended(End("ok", 200), 0)
    assert watchdog.expired(2 * SECOND) == []
    assert watchdog.expired(6 * SECOND) == [early, late]
    assert watchdog.expired(9 * SECOND) == []


def test_late_launch_is_counted_once_and_fatal_only_while_it_has_not_come_back():
    watchdog, env = dog()
    launch = flight()
    assert not watchdog.lost(launch, SECOND - 1)
    assert env.counters.total["device.late"] == 0
    assert not watchdog.lost(launch, 2 * SECOND)
    assert not watchdog.lost(launch, 3 * SECOND)
    assert env.counters.total["device.late"] == 1
    assert watchdog.lost(launch, 10 * SECOND)
    launch.done_ns = 11 * SECOND
    assert not watchdog.lost(launch, 12 * SECOND)


def test_next_wake_is_the_nearest_of_deadline_late_and_fatal():
    watchdog, _ = dog()
    assert watchdog.next_ns(()) is None
    launch = flight()
    assert watchdog.next_ns([launch]) == SECOND
    watchdog.lost(launch, 2 * SECOND)
    assert watchdog.next_ns([launch]) == 10 * SECOND
    watchdog.watch(request(0, 4))
    assert watchdog.next_ns([launch]) == 4 * SECOND
