"""Mutants of the fault injector: which hit fires, what a heal lets go, and when time has run out."""

import dataclasses

from faults import trigger
from faults.active_faults import ActiveFaults
from faults.crossing import Crossing
from faults.fault_instance import FaultInstance, State, to_ns
from faults.trigger import Trigger
from tests.faults.test_faults_machine import FaultsAgainstTheirPast
from tests.mutants.mutant import Function, Mutant, Subject


def one_hit_early(sound: Function) -> Function:
    return lambda self, key, hit, size: sound(self, key, hit + 1, size)


def one_fire_more(sound: Function) -> Function:
    def spent(self: Trigger) -> bool:
        times = self._spec.when.times
        return not self._spec.persist and times is not None and self.fired > times

    return spent


def keys_share_a_count(sound: Function) -> Function:
    return lambda self, crossing, now_ns: sound(self, dataclasses.replace(crossing, key=""), now_ns)


def keys_share_a_draw(sound: Function) -> Function:
    return lambda seed, fault, n, key, hit: sound(seed, fault, n, "", hit)


def keeps_hanging(sound: Function) -> Function:
    def let_go(self: FaultInstance) -> list[object]:
        sound(self)
        return []

    return let_go


def net_from_the_arming(sound: Function) -> Function:
    return lambda self: None if self.arm_ns is None else self.arm_ns + to_ns(self.spec.max_lifetime_s)


def turn_comes_with_the_first_fire(sound: Function) -> Function:
    def turn_has_come(self: ActiveFaults, instance: FaultInstance) -> bool:
        awaited = instance.spec.when.awaited()
        others = [other for other in self.all() if awaited and other.spec.id == awaited[0]]
        return bool(sound(self, instance)) or any(other.first_ns is not None for other in others)

    return turn_has_come


def healed_with_an_effect_out(sound: Function) -> Function:
    """Healing by `times` does not wait for the hang that it promised."""

    def finish_if_quiet(self: ActiveFaults, instance: FaultInstance, now_ns: int) -> None:
        if instance.state is State.HEALING:
            self._freed += instance.finish_healing(now_ns)
            self.note_state(instance)
            self._changed(now_ns)

    return finish_if_quiet


SUBJECTS = (
    Subject(
        FaultsAgainstTheirPast,
        (
            Mutant("it fires one hit early", Trigger, "may_fire", one_hit_early),
            Mutant("it fires once more than `times`", Trigger, "spent", one_fire_more),
            Mutant("all keys share one count", ActiveFaults, "cross", keys_share_a_count),
            Mutant("all keys share one draw", trigger, "draw", keys_share_a_draw),
            Mutant("a scope is not looked at", Crossing, "matches", lambda sound: lambda self, wanted: True),
            Mutant("a heal leaves what hangs hanging", FaultInstance, "_take_effects", keeps_hanging),
            Mutant("ttl counts from the arming", FaultInstance, "_lifetime_end_ns", net_from_the_arming),
            Mutant("`after` comes with the first fire", ActiveFaults, "_is_due", turn_comes_with_the_first_fire),
            Mutant("healed before its hang is over", ActiveFaults, "_finish_if_quiet", healed_with_an_effect_out),
        ),
    ),
)
