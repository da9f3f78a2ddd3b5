"""Off is off: nothing armed changes nothing, and DisabledFaults can stand wherever Faults stands."""

import inspect

import pytest

from faults import Catalogue, DisabledFaults, Effect, Faults, Scope, SpecError, UnknownName
from tests.faults.stage import TAKE, OutOfBlocks, Stage, spec


def decode(faults: Faults | DisabledFaults | None, steps: int = 200) -> list[int]:
    """A small piece of work with a point in it; None: the same work without any point."""
    free, taken = 64, []
    for step in range(steps):
        try:
            if faults is not None and faults.armed:
                effect = faults.fire(TAKE, key=str(step % 3), size_bytes=1, group="chat", phase="decode", step=step)
                assert effect is None or isinstance(effect, Effect)
            free = free - 1 if free else 64
        except OutOfBlocks:
            free = 64
        taken.append(free)
    return taken


def test_work_is_the_same_without_points_unarmed_compiled_off_and_armed_elsewhere() -> None:
    bare = decode(None)
    unarmed, elsewhere, other_group, healed = Stage(), Stage(), Stage(), Stage()
    elsewhere.faults.arm([spec("server.stream: cut", times=None)])
    other_group.faults.arm([spec("kv.take: oom", times=None, scope=Scope(group="batch"))])
    healed.faults.arm([spec("kv.take: oom", persist=True)])
    healed.faults.heal_all("harness")
    for faults in (DisabledFaults(), unarmed.faults, elsewhere.faults, other_group.faults, healed.faults):
        assert decode(faults) == bare
    for stage in (unarmed, elsewhere, other_group, healed):
        assert stage.fires == []
        assert all(state.hits == state.fired == 0 for state in stage.faults.states())


def test_the_work_does_notice_an_armed_fault() -> None:
    stage = Stage()
    stage.faults.arm([spec("kv.take: oom", skip=5)])
    assert decode(stage.faults) != decode(None)
    assert len(stage.fires) == 1


class OnlyArmed:
    """Answers to nothing but `armed`."""

    def __init__(self) -> None:
        self.reads = 0

    @property
    def armed(self) -> bool:
        self.reads += 1
        return False


def test_off_reads_one_attribute_a_crossing_and_touches_nothing_else() -> None:
    only = OnlyArmed()
    decode(only, steps=50)  # type: ignore[arg-type]
    assert only.reads == 50


def test_armed_is_a_plain_attribute() -> None:
    assert "armed" in vars(Stage().faults)
    assert not isinstance(inspect.getattr_static(Faults, "armed", None), property)


def test_a_point_with_nothing_armed_reads_no_clock_and_tells_nothing() -> None:
    touched: list[object] = []

    def clock_ns() -> int:
        touched.append("clock")
        return 0

    faults = Faults(Catalogue(), clock_ns, touched.append, touched.append)
    touched.clear()
    assert faults.fire(TAKE, group="chat", phase="decode") is None
    assert faults.states() == []
    assert touched == []


def _public(type_: type) -> dict[str, inspect.Signature]:
    members = inspect.getmembers(type_, inspect.isfunction)
    return {name: inspect.signature(member) for name, member in members if not name.startswith("_")}


def test_null_faults_has_the_interface_of_faults() -> None:
    assert _public(DisabledFaults) == _public(Faults)
    assert vars(DisabledFaults()) == {"armed": False}


def test_null_faults_refuses_to_arm_and_does_nothing_else() -> None:
    faults = DisabledFaults()
    with pytest.raises(SpecError, match="faults are not compiled in"):
        faults.arm([spec("kv.take: oom")])
    with pytest.raises(UnknownName, match="faults are not compiled in"):
        faults.heal("f", "harness")
    faults.beat()
    faults.tick(0)
    faults.clean()
    assert (faults.heal_all("shutdown"), faults.states(), faults.fire(TAKE), faults.armed) == (0, [], None, False)
