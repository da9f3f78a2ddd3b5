from typing import Any

import pytest

from faults import Effect, Fire, Kind, Scope, SpecError, UnknownName
from tests.faults.stage import LAUNCH, SECOND_NS, STREAM, TAKE, Stage, spec


def fires_at(stage: Stage, crossings: int, **crossing: Any) -> list[int]:
    return [number for number in range(1, crossings + 1) if stage.cross(TAKE, **crossing) == "OutOfBlocks"]


@pytest.mark.parametrize(
    ("when", "fired"),
    [
        ({}, [1]),
        ({"skip": 3}, [4]),
        ({"times": 3}, [1, 2, 3]),
        ({"times": 3, "interval": 4}, [1, 5, 9]),
        ({"times": None, "skip": 5, "interval": 10}, [6, 16]),
        ({"times": 2, "skip": 5, "interval": 10}, [6, 16]),
        ({"skip": 2, "persist": True}, [*range(3, 21)]),
    ],
)
def test_skip_interval_and_times_choose_the_hits(when: dict[str, Any], fired: list[int]) -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom", **when)])
    assert fires_at(stage, 20) == fired
    assert [fire.hit for fire in stage.fires] == fired


@pytest.mark.parametrize(("space_bytes", "fired"), [(39, [1]), (40, [2]), (100, [3]), (120, [4])])
def test_space_lets_its_bytes_go_by_first(space_bytes: int, fired: list[int]) -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom", space_bytes=space_bytes)])
    assert fires_at(stage, 9, size_bytes=40) == fired


def test_only_hits_that_match_place_and_scope_count() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom", place="after", scope=Scope(group="batch"), skip=1)])
    stage.cross(TAKE, group="batch")
    stage.cross(TAKE, place="in_flight", group="batch")
    stage.cross(TAKE, place="after", group="chat")
    stage.cross(TAKE, place="after", group=None)
    stage.cross(LAUNCH, group="batch")
    assert stage.state().hits == 0
    assert fires_at(stage, 3, place="after", group="batch") == [2]


def test_hits_are_counted_for_each_key() -> None:
    stage = Stage()
    stage.faults.arm([spec("server.stream: cut", skip=1, times=None)])
    cut = [key for key in "abacab" if stage.cross(STREAM, key=key)]
    assert cut == ["a", "a", "b"]
    assert [fire.hit for fire in stage.fires] == [2, 3, 2]


def test_a_fire_is_told_with_all_that_names_it_before_the_error_leaves() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom", id="oom", n=2, scope=Scope(group="batch"))])
    stage.clock.go(3)
    result = stage.cross(TAKE, key="r7", request="r7", step=5, group="batch", phase="decode", size_bytes=4096)
    assert result == "OutOfBlocks"
    assert stage.fires == [
        Fire(
            fault="oom",
            n=2,
            t_ns=3 * SECOND_NS,
            hit=1,
            point="kv.take",
            action="oom",
            step=5,
            request="r7",
            group="batch",
            evidence="kv.take: oom before key=r7 size_bytes=4096 group=batch phase=decode",
        )
    ]
    assert stage.fires[0].to_json() == {
        "fault": "oom", "n": 2, "t_ns": 3 * SECOND_NS, "hit": 1, "point": "kv.take", "step": 5, "request": "r7",
        "grp": "batch", "evidence": stage.fires[0].evidence, "proof": "called",
    }  # fmt: skip


def test_the_error_says_that_it_is_injected() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom", n=1)])
    with pytest.raises(Exception, match=r"^injected by fault f/1, hit 1: kv\.take: oom before$"):
        stage.faults.fire(TAKE, phase=None)


def test_kinds_other_than_raise_come_back_as_an_effect() -> None:
    stage = Stage()
    stage.faults.arm(
        [spec("device.launch: corrupt nan"), spec("kv.take: drop", id="d"), spec("server.stream: cut", id="c")]
    )
    effects = [stage.cross(point) for point in (LAUNCH, TAKE, STREAM)]
    assert all(isinstance(effect, Effect) for effect in effects)
    assert [effect.kind for effect in effects if isinstance(effect, Effect)] == [Kind.CORRUPT, Kind.DROP, Kind.CUT]
    assert isinstance(effects[0], Effect)
    assert effects[0].argument == "nan"


def test_two_faults_at_one_crossing_both_count_and_the_first_armed_breaks_it() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom", id="a", times=2), spec("kv.take: drop", id="b", skip=1)])
    results = [stage.cross(TAKE) for _ in range(3)]
    assert results[:2] == ["OutOfBlocks", "OutOfBlocks"]
    assert isinstance(results[2], Effect)
    assert stage.state("b").hits == 3


def test_a_spent_fault_is_healed_by_times_and_told_step_by_step() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom")])
    assert stage.faults.armed
    stage.clock.go(1)
    stage.cross(TAKE)
    assert stage.story() == ["armed", "fired", "healing", "healed"]
    state = stage.state()
    assert (state.arm_ns, state.first_ns, state.heal_ns) == (0, SECOND_NS, SECOND_NS)
    assert (state.healed_by, state.hits, state.fired, state.error) == ("times", 1, 1, None)
    assert stage.told[-1] == state
    assert not stage.faults.armed


def test_a_state_has_the_columns_of_the_history() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom", seed=9)])
    columns = stage.state().to_json()
    assert set(columns) == {
        "id", "n", "spec", "seed", "arm_ns", "first_ns", "heal_ns", "healed_by", "hits", "fired", "fired_min", "state",
    }  # fmt: skip
    assert (columns["seed"], columns["fired_min"], columns["state"]) == (9, 1, "armed")


def test_for_counts_from_the_first_fire_not_from_arming() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom", for_s=10.0, persist=True)])
    stage.tick(after_s=1000)
    assert stage.cross(TAKE) == "OutOfBlocks"
    stage.clock.go(9.999)
    assert stage.cross(TAKE) == "OutOfBlocks"
    stage.clock.go(0.001)
    assert stage.cross(TAKE) is None
    assert (stage.state().healed_by, stage.state().fired) == ("for", 2)


def test_ttl_is_a_net_under_a_fault_without_for() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom", persist=True, ttl_s=5.0)])
    stage.tick(after_s=100)
    assert stage.state().state == "armed"
    stage.cross(TAKE)
    stage.tick(after_s=4.9)
    assert stage.state().state == "fired"
    stage.tick(after_s=0.1)
    assert (stage.state().state, stage.state().healed_by) == ("healed", "ttl")


def test_a_lost_heartbeat_heals_all_and_a_beat_keeps_them() -> None:
    stage = Stage(heartbeat_s=3.0)
    stage.faults.arm([spec("kv.take: oom", persist=True), spec("device.launch: hang", id="h", after="f.healed")])
    stage.tick(after_s=3)
    stage.faults.beat()
    stage.tick(after_s=3)
    assert stage.faults.armed
    stage.tick(after_s=0.1)
    assert [state.healed_by for state in stage.faults.states()] == ["heartbeat", "heartbeat"]
    assert "armed" not in stage.story("h")
    assert not stage.faults.armed


def test_after_arms_when_the_other_is_healed_or_has_fired() -> None:
    stage = Stage()
    stage.faults.arm(
        [
            spec("kv.take: oom", times=2),
            spec("device.launch: error", id="late", after="f.healed"),
            spec("server.stream: cut", id="soon", after="f.fired"),
        ]
    )
    assert stage.story("late") == stage.story("soon") == ["setup"]
    assert stage.cross(STREAM) is None
    stage.cross(TAKE)
    assert (stage.story("late"), stage.story("soon")) == (["setup"], ["setup", "armed"])
    stage.cross(TAKE)
    assert stage.story("late") == ["setup", "armed"]
    assert stage.cross(LAUNCH) == "LaunchError"


def test_a_fault_armed_after_what_it_waits_for_needs_no_wait() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom")])
    stage.cross(TAKE)
    stage.faults.arm([spec("kv.take: oom", id="g", after="f.healed")])
    assert stage.story("g") == ["setup", "armed"]


def test_arming_is_all_or_nothing_and_names_every_problem() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom")])
    with pytest.raises(SpecError) as caught:
        stage.faults.arm(
            [
                spec("kv.take: drop", id="good"),
                spec("kv.take: oom"),
                spec("kv.tkae: oom", id="g"),
                spec("kv.take: oom", id="h", after="x.healed"),
            ]
        )
    assert caught.value.problems == (
        'fault "g": no point "kv.tkae"; did you mean "kv.take"?',
        'fault "f": occurrence 0 was armed already; give another n',
        'fault "h": after = "x.healed" waits for a fault not armed here; known: f, g, good',
    )
    assert [state.id for state in stage.faults.states()] == ["f"]


def test_heal_ends_one_occurrence_or_all_and_says_how_many() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom", n=n) for n in range(3)] + [spec("kv.take: oom", id="g")])
    assert stage.faults.heal("f", "harness", n=1) == 1
    assert [state.state for state in stage.faults.states()] == ["armed", "healed", "armed", "armed"]
    assert stage.faults.heal("f", "harness") == 2
    assert stage.faults.heal("f", "harness") == 0
    assert stage.faults.heal_all("shutdown") == 1
    assert [state.healed_by for state in stage.faults.states()] == ["harness", "harness", "harness", "shutdown"]
    assert stage.cross(TAKE) is None


@pytest.mark.parametrize(
    ("fault", "n", "text"),
    [
        ("g", None, 'no fault "g" is armed; known: f'),
        ("f", 1, 'no fault "f", occurrence 1 is armed; did you mean "f"?'),
    ],
)
def test_healing_an_unknown_fault_is_an_error(fault: str, n: int | None, text: str) -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom")])
    with pytest.raises(UnknownName) as caught:
        stage.faults.heal(fault, "harness", n)
    assert str(caught.value) == text


def test_clean_heals_forgets_and_frees_the_ids() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom"), spec("kv.take: oom", id="w", after="f.healed")])
    stage.faults.clean()
    assert stage.story() == ["armed", "healing", "healed", "cleaned"]
    assert stage.story("w") == ["setup", "healed", "cleaned"]
    assert stage.faults.states() == []
    assert not stage.faults.armed
    stage.faults.arm([spec("kv.take: oom")])
    assert stage.cross(TAKE) == "OutOfBlocks"


def test_a_fire_that_can_not_be_told_breaks_nothing_and_makes_its_fault_invalid() -> None:
    def full_disk(fire: Fire) -> None:
        raise OSError("no space left")

    stage = Stage(on_fire=full_disk)
    stage.faults.arm([spec("kv.take: oom", times=5)])
    assert stage.cross(TAKE) is None
    state = stage.state()
    assert (state.state, state.error) == ("invalid", "its evidence could not be written: OSError: no space left")
    assert stage.told[-1] == state
    assert stage.cross(TAKE) is None
    assert not stage.faults.armed
    stage.faults.clean()
    assert stage.story()[-1] == "cleaned"


def test_a_fault_that_turns_invalid_lets_go_of_what_hangs_on_it() -> None:
    def full_after_one(fire: Fire) -> None:
        if fire.hit > 1:
            raise OSError("no space left")

    stage = Stage(on_fire=full_after_one)
    stage.faults.arm([spec("device.launch: hang", times=5)])
    effect = stage.cross(LAUNCH)
    assert isinstance(effect, Effect)
    assert stage.cross(LAUNCH) is None
    assert stage.state().state == "invalid"
    assert effect.released


def test_a_crossing_that_hides_an_attribute_it_declares_makes_the_fault_invalid() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom", scope=Scope(phase="decode"))])
    assert stage.faults.fire(TAKE, group="batch") is None
    assert (stage.state().state, stage.state().error) == ("invalid", '"kv.take" was crossed without passing phase')


def test_a_callback_may_ask_for_states_and_heal() -> None:
    def heal(fire: Fire) -> None:
        assert stage.faults.states()[0].fired == 1
        stage.faults.heal_all("harness")

    stage = Stage(on_fire=heal)
    stage.faults.arm([spec("kv.take: oom", times=5)])
    assert stage.cross(TAKE) == "OutOfBlocks"
    assert (stage.state().healed_by, stage.story()) == ("harness", ["armed", "fired", "healing", "healed"])
