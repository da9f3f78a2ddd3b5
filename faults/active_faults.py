"""All faults of one injector and their state changes. The injector adds the lock, the clock and the callbacks.

Work for the time after the lock is collected: `notices` to report in order, and effects to release (`take_freed`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from faults.crossing import Crossing
from faults.effects import Effect
from faults.evidence import FaultState, Fire
from faults.fault_instance import CAN_FIRE, OVER, FaultInstance, State
from faults.points import Kind, UnknownName
from faults.spec import FaultSpec, did_you_mean

EffectMaker = Callable[[FaultInstance, Crossing, int, int], Effect]  # instance, crossing, hit, now_ns


@dataclass(slots=True)
class FireNotice:
    """A fire to deliver to `on_fire`. The injector sets `failed` when that raised; the effect is then not applied."""

    instance: FaultInstance
    fire: Fire
    effect: Effect
    failed: bool = False


@dataclass(slots=True)
class StateNotice:
    """A state to deliver to `on_state`."""

    instance: FaultInstance
    state: FaultState


class ActiveFaults:
    """Not thread safe. Only `by_point` and `open` may be read at any time, because they are replaced atomically."""

    def __init__(self, make_effect: EffectMaker) -> None:
        self.by_point: dict[str, tuple[FaultInstance, ...]] = {}  # instances that can fire
        self.open = False  # some fault is not over: it can fire, waits for `after`, or is healing
        self.notices: deque[FireNotice | StateNotice] = deque()
        self._make_effect = make_effect
        self._instances: dict[tuple[str, int], FaultInstance] = {}
        self._freed: list[Effect] = []

    def cross(self, crossing: Crossing, now_ns: int) -> FireNotice | None:
        """Decide one crossing. Each matching fault counts the hit; the first that fires, in order of arming, wins."""
        notice: FireNotice | None = None
        for instance in self.by_point.get(crossing.point.name, ()):
            if ended_by := instance.ended_by(now_ns):
                self.heal(instance, ended_by, now_ns)
            elif unshown := crossing.unshown(instance.wanted):
                # A fault that never matches would do nothing, and the run would pass.
                self.invalidate(instance, f'"{crossing.point.name}" was crossed without passing {", ".join(unshown)}')
                self.note_state(instance)
            elif instance.spec.place == crossing.place and crossing.matches(instance.wanted):
                hit = instance.trigger.count(crossing.key)
                if notice is None and instance.trigger.may_fire(crossing.key, hit, crossing.size_bytes):
                    notice = self._fire(instance, crossing, hit, now_ns)
        return notice

    def tick(self, now_ns: int) -> None:
        """Heal the faults whose `for` or ttl has run out, and finish those whose last effect is over."""
        for instance in self._instances.values():
            if instance.state in CAN_FIRE and (ended_by := instance.ended_by(now_ns)):
                self.heal(instance, ended_by, now_ns)
            else:
                instance.effects = [effect for effect in instance.effects if effect.due_ns > now_ns]
                self._finish_if_quiet(instance, now_ns)

    def arming_problems(self, specs: Sequence[FaultSpec]) -> list[str]:
        """Every reason why these specs can't be added to the present faults."""
        ids = {spec.id for spec in specs} | {fault for fault, _ in self._instances}
        problems = []
        for spec in specs:
            if (spec.id, spec.n) in self._instances:
                problems.append(f'fault "{spec.id}": occurrence {spec.n} was armed already; give another n')
            awaited = spec.when.awaited()
            if awaited and awaited[0] not in ids:
                near = did_you_mean(awaited[0], ids - {spec.id})
                problems.append(
                    f'fault "{spec.id}": after = "{spec.when.after}" waits for a fault not armed here; {near}'
                )
        return problems

    def add(self, instances: Iterable[FaultInstance], now_ns: int) -> None:
        """Add the instances and arm them now, except those that wait for another fault."""
        for instance in instances:
            self._instances[instance.spec.id, instance.spec.n] = instance
            if instance.spec.when.after is not None:
                self.note_state(instance)
        self._changed(now_ns)

    def chosen(self, fault: str, n: int | None) -> list[FaultInstance]:
        """The instances of a fault: all, or occurrence `n`. Errors: UnknownName when there is none."""
        instances = [instance for (id_, n_), instance in self._instances.items() if id_ == fault and n in (None, n_)]
        if not instances:
            which = f'"{fault}"' if n is None else f'"{fault}", occurrence {n}'
            raise UnknownName(f"no fault {which} is armed; {did_you_mean(fault, {id_ for id_, _ in self._instances})}")
        return instances

    def all(self) -> list[FaultInstance]:
        """All instances, in order of arming."""
        return list(self._instances.values())

    def heal_each(self, instances: Iterable[FaultInstance], by: str, now_ns: int) -> int:
        """Heal the instances that are not over; return their number."""
        unfinished = [instance for instance in instances if instance.state not in OVER]
        # Waiting instances go first: healing the fault that they wait for would arm them.
        for instance in sorted(unfinished, key=lambda instance: instance.state is not State.SETUP):
            self.heal(instance, by, now_ns)
        return len(unfinished)

    def heal(self, instance: FaultInstance, by: str, now_ns: int) -> None:
        """End a fault that is not over. `by` is its column `healed_by`."""
        could_fire = instance.state in CAN_FIRE
        instance.begin_healing(by)
        if could_fire:
            self.note_state(instance)
        self._freed += instance.finish_healing(now_ns)
        self.note_state(instance)
        self._changed(now_ns)

    def effect_over(self, instance: FaultInstance, effect: Effect, now_ns: int) -> None:
        """Note that the crossing code has waited until the end of the effect."""
        if effect in instance.effects:
            instance.effects.remove(effect)
            self._finish_if_quiet(instance, now_ns)

    def invalidate(self, instance: FaultInstance, error: str) -> None:
        self._freed += instance.invalidate(error)
        self._publish()

    def clean(self) -> None:
        """Forget every fault; all must be over."""
        for instance in self._instances.values():
            instance.clean()
            self.note_state(instance)
        self._instances = {}
        self._publish()

    def note_state(self, instance: FaultInstance) -> None:
        self.notices.append(StateNotice(instance, instance.to_state()))

    def take_freed(self) -> list[Effect]:
        """Return the effects to release, each once."""
        freed, self._freed = self._freed, []
        return freed

    def _fire(self, instance: FaultInstance, crossing: Crossing, hit: int, now_ns: int) -> FireNotice:
        fire = Fire(
            fault=instance.spec.id,
            n=instance.spec.n,
            t_ns=now_ns,
            hit=hit,
            point=crossing.point.name,
            action=instance.resolved.action.name,
            step=crossing.step,
            request=crossing.request,
            group=crossing.group,
            evidence=f"{instance.spec.do} {crossing.describe()}",
        )
        notice = FireNotice(instance, fire, self._make_effect(instance, crossing, hit, now_ns))
        self.notices.append(notice)
        first = instance.note_fire(now_ns)
        if notice.effect.kind in (Kind.DELAY, Kind.HANG):
            notice.effect.due_ns = instance.effect_due_ns(now_ns)
            instance.effects.append(notice.effect)
        if first:
            self.note_state(instance)
        if instance.trigger.spent:
            instance.begin_healing("times")
            self.note_state(instance)
            self._finish_if_quiet(instance, now_ns)
        if first or instance.trigger.spent:
            self._changed(now_ns)
        return notice

    def _finish_if_quiet(self, instance: FaultInstance, now_ns: int) -> None:
        if instance.state is State.HEALING and not instance.effects:
            instance.finish_healing(now_ns)
            self.note_state(instance)
            self._changed(now_ns)

    def _changed(self, now_ns: int) -> None:
        """After a change of state: arm the instances whose `after` is now fulfilled, then publish."""
        for instance in self._instances.values():
            if instance.state is State.SETUP and self._is_due(instance):
                instance.arm(now_ns)
                self.note_state(instance)
        self._publish()

    def _is_due(self, instance: FaultInstance) -> bool:
        awaited = instance.spec.when.awaited()
        if awaited is None:
            return True
        others = [other for other in self._instances.values() if other.spec.id == awaited[0]]
        if awaited[1] == "fired":
            return any(other.first_ns is not None for other in others)
        return any(other.state is State.HEALED for other in others)

    def _publish(self) -> None:
        by_point: dict[str, tuple[FaultInstance, ...]] = {}
        for instance in self._instances.values():
            if instance.state in CAN_FIRE:
                by_point[instance.spec.do.point] = (*by_point.get(instance.spec.do.point, ()), instance)
        self.by_point = by_point
        self.open = any(instance.state not in OVER for instance in self._instances.values())
