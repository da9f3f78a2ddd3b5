from collections.abc import Callable
from typing import Any

import pytest

from faults import Effect, actions
from tests.faults.stage import LAUNCH, SECOND_NS, Stage, spec


def hanging(stage: Stage, do: str = "device.launch: hang 20s", **fields: Any) -> Effect:
    stage.faults.arm([spec(do, **fields)])
    effect = stage.cross(LAUNCH)
    assert isinstance(effect, Effect)
    return effect


def test_a_wait_lasts_as_long_as_promised_and_then_the_fault_is_healed() -> None:
    stage = Stage()
    effect = hanging(stage)
    assert (stage.state().state, stage.faults.armed) == ("healing", True)
    effect.wait()
    assert stage.waits == [20.0]
    assert (stage.state().state, stage.state().healed_by, stage.faults.armed) == ("healed", "times", False)


def test_several_waits_together_lose_no_more_than_promised() -> None:
    stage = Stage()
    effect = hanging(stage)
    stage.clock.go(4)
    effect.wait()
    effect.wait()
    assert stage.waits == [16.0]


@pytest.mark.parametrize(
    ("do", "fields", "seconds"),
    [
        ("device.launch: hang 20s", {}, 20.0),
        ("device.launch: delay 20ms", {}, 0.02),
        ("device.launch: hang", {}, 60.0),
        ("device.launch: hang", {"ttl_s": 7.0}, 7.0),
        ("device.launch: hang", {"for_s": 5.0}, 5.0),
        ("device.launch: hang 20s", {"for_s": 5.0}, 5.0),
    ],
)
def test_an_effect_is_due_when_promised_and_never_outside_for_or_the_net(
    do: str, fields: dict[str, Any], seconds: float
) -> None:
    stage = Stage()
    stage.clock.go(100)
    effect = hanging(stage, do, **fields)
    assert effect.due_ns / SECOND_NS == 100 + seconds


def test_a_virtual_device_that_never_waits_is_healed_by_the_tick_at_due() -> None:
    stage = Stage()
    effect = hanging(stage)
    stage.tick(after_s=19)
    assert stage.state().state == "healing"
    stage.tick(after_s=1)
    assert (stage.state().state, stage.state().healed_by) == ("healed", "times")
    assert not effect.released


def test_healing_releases_once_and_names_who_did_it() -> None:
    stage = Stage()
    effect = hanging(stage, times=2)
    released: list[str] = []
    effect.on_release(lambda: released.append("early"))
    assert not effect.released
    stage.faults.heal("f", "harness")
    assert effect.released
    effect.release()
    effect.on_release(lambda: released.append("late"))
    assert released == ["early", "late"]
    effect.wait()
    assert (stage.state().state, stage.state().healed_by) == ("healed", "harness")


def test_a_hang_in_healing_is_released_by_the_harness_too() -> None:
    stage = Stage()
    effect = hanging(stage)
    stage.faults.heal("f", "harness")
    assert effect.released
    assert (stage.story(), stage.state().healed_by) == (["armed", "fired", "healing", "healed"], "harness")


def test_one_bad_callback_keeps_nobody_hanging() -> None:
    stage = Stage()
    stage.faults.arm([spec("device.launch: hang", times=2)])
    first, second = stage.cross(LAUNCH), stage.cross(LAUNCH)
    assert isinstance(first, Effect)
    assert isinstance(second, Effect)
    first.on_release(lambda: 1 // 0)
    with pytest.raises(ExceptionGroup):
        stage.faults.heal_all("harness")
    assert first.released
    assert second.released
    assert stage.story()[-1] == "healed"


def test_carry_out_waits_and_kills_and_refuses_what_only_the_layer_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    killed: list[str] = []
    monkeypatch.setattr(actions, "kill_this_process", lambda: killed.append("killed"))
    stage.faults.arm(
        [spec(f"device.launch: {do}", n=n) for n, do in enumerate(["delay 2s", "hang 3s", "kill", "corrupt nan"])]
    )
    *carried, corrupt = [stage.faults.fire(LAUNCH) for _ in range(4)]
    for effect in carried:
        assert effect is not None
        actions.carry_out(effect)
    assert killed == ["killed"]
    assert stage.waits == [2.0, 1.0]  # both began at once, so the longer has 1 s left
    assert corrupt is not None
    with pytest.raises(AssertionError, match="only the code that crossed the point"):
        actions.carry_out(corrupt)


def test_a_corruption_is_the_same_in_each_run_of_a_seed_and_differs_by_hit() -> None:
    def flipped(seed: int) -> list[int]:
        stage = Stage()
        stage.faults.arm([spec("device.launch: corrupt bit_flip", times=8, seed=seed)])
        bits = []
        for _ in range(8):
            effect, buffer = stage.cross(LAUNCH), bytearray(64)
            assert isinstance(effect, Effect)
            bit = actions.flip_bit(buffer, effect)
            assert int.from_bytes(buffer, "little") == 1 << bit
            bits.append(bit)
        return bits

    assert flipped(1) == flipped(1)
    assert flipped(1) != flipped(2)
    assert len(set(flipped(1))) > 4


def test_a_lie_has_a_number() -> None:
    stage = Stage()
    assert hanging(stage, "device.launch: lie 0.5").number == 0.5


class Planned:
    """A timer of a test: what was planned, to be called by hand."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.calls: list[tuple[int, Callable[[], object]]] = []

    def now_ns(self) -> int:
        return self.stage.clock()

    def at(self, t_ns: int, call: Callable[[], object]) -> None:
        assert t_ns >= self.stage.clock(), "planned in the past"
        self.calls.append((t_ns, call))


def test_who_must_not_block_is_called_once_when_the_effect_is_over() -> None:
    stage, called = Stage(), list[str]()
    timer = Planned(stage)
    effect = hanging(stage)
    effect.then(lambda: called.append("over"), timer)
    ((due_ns, end),) = timer.calls
    assert due_ns == 20 * SECOND_NS
    stage.clock.go(20)
    end()
    assert called == ["over"]
    assert stage.state().state == "healed"


def test_who_must_not_block_is_called_once_when_the_effect_is_released_first() -> None:
    stage, called = Stage(), list[str]()
    timer = Planned(stage)
    effect = hanging(stage)
    effect.then(lambda: called.append("over"), timer)
    stage.clock.go(3)
    stage.faults.heal("f", "harness")
    assert [t_ns for t_ns, _ in timer.calls] == [20 * SECOND_NS, 3 * SECOND_NS]
    for _, end in reversed(timer.calls):
        end()
    assert called == ["over"]
