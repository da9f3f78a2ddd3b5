"""All faults of one bus and what happens to them. No lock, no clock, no callback: `bus` adds those.

What must be done outside the lock is left in two places: `notices`, to be told in order, and the effects to let go,
see `take_freed`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from faults.crossing import Crossing
from faults.effects import Effect
from faults.evidence import FaultState, Fire
from faults.lifecycle import CAN_FIRE, OVER, Life, State
from faults.points import Kind, UnknownName
from faults.spec import FaultSpec, did_you_mean

EffectMaker = Callable[[Life, Crossing, int, int], Effect]  # life, crossing, hit, now_ns


@dataclass(slots=True)
class FireNotice:
    """A fire to tell. `failed` is set by the bus when it could not be told: then nothing may be broken."""

    life: Life
    fire: Fire
    effect: Effect
    failed: bool = False


@dataclass(slots=True)
class StateNotice:
    life: Life
    seen: FaultState


class Roster:
    """Not thread safe, but for `by_point` and `open`, which are replaced whole and may be read at any time."""

    def __init__(self, make_effect: EffectMaker) -> None:
        self.by_point: dict[str, tuple[Life, ...]] = {}  # those that can fire
        self.open = False  # some fault is not over: it can fire, waits for its turn, or is healing
        self.notices: deque[FireNotice | StateNotice] = deque()
        self._make_effect = make_effect
        self._lives: dict[tuple[str, int], Life] = {}
        self._freed: list[Effect] = []

    def cross(self, crossing: Crossing, now_ns: int) -> FireNotice | None:
        """Decide one crossing. Each matching fault counts the hit; the first that fires, in order of arming, has it."""
        notice: FireNotice | None = None
        for life in self.by_point.get(crossing.point.name, ()):
            if ended_by := life.ended_by(now_ns):
                self.heal(life, ended_by, now_ns)
            elif unshown := crossing.unshown(life.wanted):
                # Silently never matching would be chaos that did nothing, reported green.
                self.invalidate(life, f'"{crossing.point.name}" was crossed without passing {", ".join(unshown)}')
                self.note_state(life)
            elif life.spec.place == crossing.place and crossing.matches(life.wanted):
                hit = life.gates.count(crossing.key)
                if notice is None and life.gates.may_fire(crossing.key, hit, crossing.size_bytes):
                    notice = self._fire(life, crossing, hit, now_ns)
        return notice

    def tick(self, now_ns: int) -> None:
        """Heal what `for` or ttl has ended, and finish what only waited for its last effect."""
        for life in self._lives.values():
            if life.state in CAN_FIRE and (ended_by := life.ended_by(now_ns)):
                self.heal(life, ended_by, now_ns)
            else:
                life.effects = [effect for effect in life.effects if effect.due_ns > now_ns]
                self._finish_if_quiet(life, now_ns)

    def arming_problems(self, specs: Sequence[FaultSpec]) -> list[str]:
        """What stands against adding these to those that are here."""
        ids = {spec.id for spec in specs} | {fault for fault, _ in self._lives}
        problems = []
        for spec in specs:
            if (spec.id, spec.n) in self._lives:
                problems.append(f'fault "{spec.id}": occurrence {spec.n} was armed already; give another n')
            awaited = spec.when.awaited()
            if awaited and awaited[0] not in ids:
                near = did_you_mean(awaited[0], ids - {spec.id})
                problems.append(
                    f'fault "{spec.id}": after = "{spec.when.after}" waits for a fault not armed here{near}'
                )
        return problems

    def add(self, lives: Iterable[Life], now_ns: int) -> None:
        """Arm these now, but for those that wait for another."""
        for life in lives:
            self._lives[life.spec.id, life.spec.n] = life
            if life.spec.when.after is not None:
                self.note_state(life)
        self._changed(now_ns)

    def chosen(self, fault: str, n: int | None) -> list[Life]:
        """Errors: UnknownName when there is none."""
        lives = [life for (id_, n_), life in self._lives.items() if id_ == fault and n in (None, n_)]
        if not lives:
            which = f'"{fault}"' if n is None else f'"{fault}", occurrence {n}'
            raise UnknownName(f"no fault {which} is armed{did_you_mean(fault, {id_ for id_, _ in self._lives})}")
        return lives

    def all(self) -> list[Life]:
        """In order of arming."""
        return list(self._lives.values())

    def heal_each(self, lives: Iterable[Life], by: str, now_ns: int) -> int:
        """Gives how many were not over yet."""
        open_lives = [life for life in lives if life.state not in OVER]
        # Those that wait go first: healing what they wait for would arm them, and one crossing might still hit.
        for life in sorted(open_lives, key=lambda life: life.state is not State.SETUP):
            self.heal(life, by, now_ns)
        return len(open_lives)

    def heal(self, life: Life, by: str, now_ns: int) -> None:
        could_fire = life.state in CAN_FIRE
        life.begin_healing(by)
        if could_fire:
            self.note_state(life)
        self._freed += life.finish_healing(now_ns)
        self.note_state(life)
        self._changed(now_ns)

    def effect_over(self, life: Life, effect: Effect, now_ns: int) -> None:
        """The crossing code has waited it out."""
        if effect in life.effects:
            life.effects.remove(effect)
            self._finish_if_quiet(life, now_ns)

    def invalidate(self, life: Life, error: str) -> None:
        self._freed += life.invalidate(error)
        self._publish()

    def clean(self) -> None:
        """Forget every fault; all must be over."""
        for life in self._lives.values():
            life.clean()
            self.note_state(life)
        self._lives = {}
        self._publish()

    def note_state(self, life: Life) -> None:
        self.notices.append(StateNotice(life, life.seen()))

    def take_freed(self) -> list[Effect]:
        """The effects to let go, once each."""
        freed, self._freed = self._freed, []
        return freed

    def _fire(self, life: Life, crossing: Crossing, hit: int, now_ns: int) -> FireNotice:
        fire = Fire(
            fault=life.spec.id,
            n=life.spec.n,
            t_ns=now_ns,
            hit=hit,
            point=crossing.point.name,
            action=life.resolved.action.word,
            step=crossing.step,
            request=crossing.request,
            group=crossing.group,
            evidence=f"{life.spec.do} {crossing.in_words()}",
        )
        notice = FireNotice(life, fire, self._make_effect(life, crossing, hit, now_ns))
        self.notices.append(notice)
        first = life.note_fire(now_ns)
        if notice.effect.kind in (Kind.DELAY, Kind.HANG):
            notice.effect.due_ns = life.effect_due_ns(now_ns)
            life.effects.append(notice.effect)
        if first:
            self.note_state(life)
        if life.gates.spent:
            life.begin_healing("times")
            self.note_state(life)
            self._finish_if_quiet(life, now_ns)
        if first or life.gates.spent:
            self._changed(now_ns)
        return notice

    def _finish_if_quiet(self, life: Life, now_ns: int) -> None:
        if life.state is State.HEALING and not life.effects:
            life.finish_healing(now_ns)
            self.note_state(life)
            self._changed(now_ns)

    def _changed(self, now_ns: int) -> None:
        """Some state is new: arm those whose `after` has come by it, then publish."""
        for life in self._lives.values():
            if life.state is State.SETUP and self._turn_has_come(life):
                life.arm(now_ns)
                self.note_state(life)
        self._publish()

    def _turn_has_come(self, life: Life) -> bool:
        awaited = life.spec.when.awaited()
        if awaited is None:
            return True
        others = [other for other in self._lives.values() if other.spec.id == awaited[0]]
        if awaited[1] == "fired":
            return any(other.first_ns is not None for other in others)
        return any(other.state is State.HEALED for other in others)

    def _publish(self) -> None:
        by_point: dict[str, tuple[Life, ...]] = {}
        for life in self._lives.values():
            if life.state in CAN_FIRE:
                by_point[life.spec.do.point] = (*by_point.get(life.spec.do.point, ()), life)
        self.by_point = by_point
        self.open = any(life.state not in OVER for life in self._lives.values())
