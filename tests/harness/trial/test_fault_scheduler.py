from typing import Any

import pytest

from faults.spec import FaultSpec, parse_do
from harness.live.admin import AdminGone
from harness.plan.occurrences import Occurrence
from harness.trial.fault_scheduler import FaultScheduler


class FakeInjector:
    def __init__(self) -> None:
        self.armed: list[str] = []
        self.healed: list[str] = []
        self.state: dict[str, dict[str, Any]] = {}
        self.down = False

    def arm(self, spec: FaultSpec) -> None:
        if self.down:
            raise AdminGone("no answer")
        self.armed.append(f"{spec.id}#{spec.n}")
        self.state[f"{spec.id}#{spec.n}"] = {
            "id": spec.id, "n": spec.n, "state": "armed", "first_ns": None, "heal_ns": None
        }  # fmt: skip

    def heal(self, fault: str) -> None:
        self.healed.append(fault)

    def states(self) -> list[dict[str, Any]]:
        return list(self.state.values())


def occurrence(name: str, n: int = 0, at_s: float | None = None, after: str | None = None) -> Occurrence:
    return Occurrence(FaultSpec(id=name, n=n, do=parse_do("kv.take: oom")), at_s, after)


def test_each_occurrence_is_armed_once_when_its_time_has_come():
    injector = FakeInjector()
    faults = FaultScheduler([occurrence("oom", 0, 5.0), occurrence("oom", 1, 10.0)])
    for at_s in (0.0, 4.9, 5.0, 6.0, 10.2, 20.0):
        faults.tick(injector, at_s)
    assert injector.armed == ["oom#0", "oom#1"]


def test_follower_waits_until_the_other_has_fired_or_healed():
    injector = FakeInjector()
    faults = FaultScheduler(
        [occurrence("a", at_s=0.0), occurrence("b", after="a.fired"), occurrence("c", after="a.healed")]
    )
    faults.tick(injector, 0.0)
    faults.tick(injector, 1.0)
    assert injector.armed == ["a#0"]
    injector.state["a#0"] |= {"state": "fired", "first_ns": 7}
    faults.tick(injector, 2.0)
    assert injector.armed == ["a#0", "b#0"]
    injector.state["a#0"] |= {"state": "healed", "heal_ns": 9}
    faults.tick(injector, 3.0)
    assert injector.armed == ["a#0", "b#0", "c#0"]


def test_server_that_does_not_answer_loses_no_fault():
    injector = FakeInjector()
    faults = FaultScheduler([occurrence("oom", at_s=1.0)])
    injector.down = True
    with pytest.raises(AdminGone):
        faults.tick(injector, 1.0)
    injector.down = False
    faults.tick(injector, 2.0)
    assert injector.armed == ["oom#0"]


def test_heal_all_ends_what_is_armed_and_leaves_alone_what_is_over():
    injector = FakeInjector()
    faults = FaultScheduler([occurrence("a", at_s=0.0), occurrence("b", at_s=0.0), occurrence("never", at_s=99.0)])
    faults.tick(injector, 0.0)
    injector.state["a#0"]["state"] = "healed"
    faults.tick(injector, 1.0)
    assert faults.active == ["b"]
    faults.heal_all(injector)
    assert injector.healed == ["b"]
    assert injector.armed == ["a#0", "b#0"]


def test_fault_whose_process_died_is_over_and_whoever_waited_for_it_is_armed():
    injector = FakeInjector()
    faults = FaultScheduler([occurrence("kill", at_s=0.0), occurrence("next", after="kill.fired")])
    faults.tick(injector, 0.0)
    injector.state.clear()  # another process answers now, and knows nothing of it
    faults.tick(injector, 1.0)
    assert injector.armed == ["kill#0", "next#0"]
    faults.tick(injector, 2.0)
    assert faults.active == ["next"]


def test_heal_all_never_asks_for_what_a_restarted_server_does_not_know():
    injector = FakeInjector()
    faults = FaultScheduler([occurrence("kill", at_s=0.0), occurrence("stays", at_s=0.0)])
    faults.tick(injector, 0.0)
    del injector.state["kill#0"]
    faults.heal_all(injector)
    assert injector.healed == ["stays"]


def test_what_was_over_before_the_restart_stays_what_it_was():
    injector = FakeInjector()
    faults = FaultScheduler([occurrence("a", at_s=0.0), occurrence("b", after="a.healed")])
    faults.tick(injector, 0.0)
    injector.state["a#0"]["state"] = "invalid"
    faults.tick(injector, 1.0)
    injector.state.clear()
    faults.tick(injector, 2.0)
    assert injector.armed == ["a#0"]
