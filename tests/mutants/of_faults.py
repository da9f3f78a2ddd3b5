"""Mutants of the fault bus: which hit fires, what a heal lets go, and when time has run out."""

import dataclasses

from faults import gates
from faults.crossing import Crossing
from faults.gates import Gates
from faults.lifecycle import Life, State, to_ns
from faults.roster import Roster
from tests.faults.test_faults_machine import FaultsAgainstTheirPast
from tests.mutants.mutant import Function, Mutant, Subject


def one_hit_early(sound: Function) -> Function:
    return lambda self, key, hit, size: sound(self, key, hit + 1, size)


def one_fire_more(sound: Function) -> Function:
    def spent(self: Gates) -> bool:
        times = self._spec.when.times
        return not self._spec.persist and times is not None and self.fired > times

    return spent


def keys_share_a_count(sound: Function) -> Function:
    return lambda self, crossing, now_ns: sound(self, dataclasses.replace(crossing, key=""), now_ns)


def keys_share_a_draw(sound: Function) -> Function:
    return lambda seed, fault, n, key, hit: sound(seed, fault, n, "", hit)


def keeps_hanging(sound: Function) -> Function:
    def let_go(self: Life) -> list[object]:
        sound(self)
        return []

    return let_go


def net_from_the_arming(sound: Function) -> Function:
    return lambda self: None if self.arm_ns is None else self.arm_ns + to_ns(self.spec.net_s)


def turn_comes_with_the_first_fire(sound: Function) -> Function:
    def turn_has_come(self: Roster, life: Life) -> bool:
        awaited = life.spec.when.awaited()
        others = [other for other in self.all() if awaited and other.spec.id == awaited[0]]
        return bool(sound(self, life)) or any(other.first_ns is not None for other in others)

    return turn_has_come


def healed_with_an_effect_out(sound: Function) -> Function:
    """Healing by `times` does not wait for the hang that it promised."""

    def finish_if_quiet(self: Roster, life: Life, now_ns: int) -> None:
        if life.state is State.HEALING:
            self._freed += life.finish_healing(now_ns)
            self.note_state(life)
            self._changed(now_ns)

    return finish_if_quiet


SUBJECTS = (
    Subject(
        FaultsAgainstTheirPast,
        (
            Mutant("it fires one hit early", Gates, "may_fire", one_hit_early),
            Mutant("it fires once more than `times`", Gates, "spent", one_fire_more),
            Mutant("all keys share one count", Roster, "cross", keys_share_a_count),
            Mutant("all keys share one draw", gates, "draw", keys_share_a_draw),
            Mutant("a scope is not looked at", Crossing, "matches", lambda sound: lambda self, wanted: True),
            Mutant("a heal leaves what hangs hanging", Life, "_let_go", keeps_hanging),
            Mutant("ttl counts from the arming", Life, "_net_end_ns", net_from_the_arming),
            Mutant("`after` comes with the first fire", Roster, "_turn_has_come", turn_comes_with_the_first_fire),
            Mutant("healed before its hang is over", Roster, "_finish_if_quiet", healed_with_an_effect_out),
        ),
    ),
)
