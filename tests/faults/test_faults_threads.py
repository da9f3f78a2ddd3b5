"""Threads and events with bounded joins; nothing here sleeps, and no assertion is about a duration."""

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from faults import Effect, Fire
from tests.faults.stage import LAUNCH, STREAM, TAKE, Stage, spec

PATIENCE_S = 10.0


def run_together(works: Iterable[Callable[[], object]]) -> None:
    works = list(works)
    gate = threading.Barrier(len(works))

    def begin(work: Callable[[], object]) -> None:
        gate.wait(PATIENCE_S)
        work()

    threads = [threading.Thread(target=begin, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)


class Hanger:
    """A thread that crosses a hanging point, seen to be really waiting."""

    def __init__(self, **fields: Any) -> None:
        self.waiting, self.over = threading.Event(), threading.Event()
        self.stage = Stage(waiter=self._wait)
        self.stage.faults.arm([spec("device.launch: hang", **fields)])
        self.thread = threading.Thread(target=self._cross, daemon=True)
        self.thread.start()
        assert self.waiting.wait(PATIENCE_S)

    def _wait(self, event: threading.Event, seconds: float) -> bool:
        self.waiting.set()
        return event.wait(seconds)

    def _cross(self) -> None:
        effect = self.stage.cross(LAUNCH)
        assert isinstance(effect, Effect)
        effect.wait()
        self.over.set()

    def ended(self) -> bool:
        self.thread.join(PATIENCE_S)
        return self.over.is_set()


def test_heal_does_not_wait_behind_a_hanging_fault_but_ends_it() -> None:
    hanger = Hanger()
    assert not hanger.over.is_set()
    run_together([lambda: hanger.stage.faults.heal_all("harness")] * 2)
    assert hanger.ended()
    assert hanger.stage.story() == ["armed", "fired", "healing", "healed"]


def test_ttl_lets_go_of_a_hang() -> None:
    hanger = Hanger(times=2)
    hanger.stage.tick(after_s=59)
    assert not hanger.over.is_set()
    hanger.stage.tick(after_s=1)  # on the injector's clock; the thread itself would wait 60 real seconds
    assert hanger.ended()
    assert hanger.stage.state().healed_by == "ttl"


def test_others_arm_fire_and_ask_while_one_hangs() -> None:
    hanger = Hanger()
    done: list[str] = []

    def others() -> None:
        hanger.stage.faults.arm([spec("kv.take: oom", id="g")])
        done.append(str(hanger.stage.cross(TAKE)))
        done.extend(state.state for state in hanger.stage.faults.states())
        hanger.stage.tick()

    run_together([others])
    assert done == ["OutOfBlocks", "healing", "healed"]
    assert not hanger.over.is_set()
    hanger.stage.faults.heal("f", "harness")
    assert hanger.ended()


def test_same_seed_same_fires_whatever_order_the_threads_take() -> None:
    keys = ["a", "b", "c", "d"]

    def fired(orders: list[list[str]]) -> set[tuple[str | None, int]]:
        stage = Stage()
        stage.faults.arm([spec("server.stream: cut", times=None, skip=2, interval=3, probability=0.5, seed=7)])

        def cross_in(order: list[str]) -> None:
            for key in order:
                stage.cross(STREAM, key=key, request=key)

        run_together([partial(cross_in, order) for order in orders])
        assert stage.state().hits == sum(len(order) for order in orders)
        return {(fire.request, fire.hit) for fire in stage.fires}

    apart = fired([[key] * 120 for key in keys])
    assert len(apart) > 50
    assert {request for request, _ in apart} == set(keys)
    for _ in range(5):
        assert fired([[key] * 120 for key in keys]) == apart
    assert fired([keys * 120]) == apart
    assert fired([list(reversed(keys)) * 60] * 2) == apart


def test_times_is_never_exceeded_by_racing_threads_and_each_fire_is_told_once() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom", times=25)])
    broken: list[int] = []
    run_together([lambda: broken.append(sum(stage.cross(TAKE) is not None for _ in range(100))) for _ in range(4)])
    assert sum(broken) == 25
    assert sorted(fire.hit for fire in stage.fires) == [*range(1, 26)]
    assert stage.story() == ["armed", "fired", "healing", "healed"]


def test_a_fire_is_on_record_before_its_crossing_goes_on() -> None:
    """A kill must find its own evidence written, whichever thread does the telling."""
    on_record: set[int] = set()

    def note(fire: Fire) -> None:
        on_record.add(fire.hit)

    stage = Stage(on_fire=note)
    stage.faults.arm([spec("device.launch: kill", times=None)])
    missing: list[int] = []

    def cross() -> None:
        for _ in range(100):
            effect = stage.cross(LAUNCH)
            assert isinstance(effect, Effect)
            if effect.hit not in on_record:
                missing.append(effect.hit)

    run_together([cross] * 4)
    assert missing == []
    assert len(on_record) == 400
