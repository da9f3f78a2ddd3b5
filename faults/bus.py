"""Where code that can break meets the faults that are armed.

A crossing reads `if faults.armed: faults.fire(POINT, ...)`; switched off that is an attribute read and a branch, see
benchmarks/points_off.py.

    fire ---- lock: window, scope, place, count, gates ----> evidence out ----> raise, or Effect to the caller
    heal ---- lock: take from the snapshot ----> let go of what hangs ----> evidence out

The lock is held for counting only. Waiting is done by the crossing code, on its Effect, with no lock held; so healing
never waits behind a fault that hangs, and arming needs no turn in the engine's mailbox.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from faults.effects import Effect, Waiter, call_all, wait_real
from faults.evidence import FaultState, Fire
from faults.lifecycle import CAN_FIRE, OVER, Life, State
from faults.points import Catalogue, Kind, Point, UnknownName
from faults.resolve import resolve
from faults.spec import FaultSpec, SpecError, did_you_mean


class Faults:
    """The faults of one Env; no module state. Thread safe.

    `on_fire` and `on_state` are called in the order of events, one at a time, with no lock of ours that `fire` or
    `heal` needs; keep them short. When one raises, its fault turns invalid with the reason: evidence that can't be
    written is no evidence. With `heartbeat_s`, all heals when neither `beat` nor `arm` was called for that long;
    somebody must call `tick`, from a thread that a hanging fault can't stop.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        clock_ns: Callable[[], int],
        on_fire: Callable[[Fire], None],
        on_state: Callable[[FaultState], None],
        heartbeat_s: float | None = None,
        waiter: Waiter = wait_real,
    ) -> None:
        self.armed = False
        self._catalogue, self._clock_ns = catalogue, clock_ns
        self._on_fire, self._on_state = on_fire, on_state
        self._heartbeat_s, self._waiter = heartbeat_s, waiter
        self._lives: dict[tuple[str, int], Life] = {}
        self._snapshot: dict[str, tuple[Life, ...]] = {}  # point name -> those that can fire; never changed, replaced
        self._beat_ns = clock_ns()
        self._outbox: deque[_FireNotice | _StateNotice] = deque()
        self._lock = threading.Lock()
        self._telling = threading.RLock()  # re-entrant: a callback may ask for states or heal

    def fire(
        self,
        point: Point,
        *,
        key: str = "",
        size_bytes: int = 0,
        place: str = "before",
        step: int | None = None,
        request: str | None = None,
        group: str | None = None,
        **attrs: str | int | None,
    ) -> Effect | None:
        """Cross a point: None when nothing fires, an Effect to carry out, or the action's own error raised.

        When several faults match one crossing, each counts the hit and the first armed one that fires has it alone.
        """
        lives = self._snapshot.get(point.name)
        if not lives:
            return None
        shown = {"group": group, **attrs}
        freed: list[Effect] = []
        notice: _FireNotice | None = None
        with self._lock:
            now_ns = self._clock_ns()
            for life in lives:
                if life.state not in CAN_FIRE:
                    continue
                if ended_by := life.ended_by(now_ns):
                    freed += self._heal(life, ended_by, now_ns)
                elif life.spec.place == place and _matches(life, shown):
                    hit = life.gates.count(key)
                    if notice is None and life.gates.may_fire(key, hit, size_bytes):
                        evidence = _in_words(life, place, key, size_bytes, shown)
                        fire = Fire(
                            fault=life.spec.id,
                            n=life.spec.n,
                            t_ns=now_ns,
                            hit=hit,
                            point=point.name,
                            action=life.resolved.action.word,
                            step=step,
                            request=request,
                            group=group,
                            evidence=evidence,
                        )
                        notice = _FireNotice(fire, life, self._effect(life, key, hit, now_ns))
                        self._note_fire(notice, now_ns)
        self._settle(freed)
        if notice is None or notice.failed:
            return None
        error = notice.life.resolved.action.error
        if error is not None:
            raise error(f"injected by fault {notice.life.spec.label}, hit {notice.fire.hit}: {notice.fire.evidence}")
        return notice.effect

    def arm(self, specs: Sequence[FaultSpec]) -> None:
        """Arm all of them now, or none. `at` and `every` are the caller's to spend; one with `after` waits here.

        Errors: SpecError with all problems: unknown names, what the point does not permit, an (id, n) in use.
        """
        problems: list[str] = []
        try:
            lives = [Life(one) for one in resolve(specs, self._catalogue)]
        except SpecError as error:
            problems.extend(error.problems)
        with self._lock:
            now_ns = self._clock_ns()
            ids = {spec.id for spec in specs} | {fault_id for fault_id, _ in self._lives}
            for spec in specs:
                problems.extend(f'fault "{spec.id}": {problem}' for problem in self._arming_problems(spec, ids))
            if problems:
                raise SpecError(problems)
            self._beat_ns = now_ns
            for life in lives:
                self._lives[life.spec.id, life.spec.n] = life
                if life.spec.when.after is not None:
                    self._note_state(life)
            self._promote(now_ns)
            self._publish()
        self._settle([])

    def heal(self, fault: str, by: str, n: int | None = None) -> int:
        """End a fault (all occurrences, or the n-th) and release what hangs on it; gives how many were not over yet.

        Never waits for the fault. Errors: UnknownName when no such fault was armed.
        """
        with self._lock:
            chosen = [life for (id_, n_), life in self._lives.items() if id_ == fault and n in (None, n_)]
            if not chosen:
                which = f'"{fault}"' if n is None else f'"{fault}", occurrence {n}'
                raise UnknownName(f"no fault {which} is armed{did_you_mean(fault, {id_ for id_, _ in self._lives})}")
            ended, freed = self._heal_each(chosen, by)
        self._settle(freed)
        return ended

    def heal_all(self, by: str) -> int:
        """End every fault; gives how many were not over yet. Safe to call twice, and at any time."""
        with self._lock:
            ended, freed = self._heal_each(list(self._lives.values()), by)
        self._settle(freed)
        return ended

    def clean(self, by: str = "shutdown") -> None:
        """Heal what is left, end the life of every fault, the invalid too, and forget them: ids are free again."""
        with self._lock:
            _, freed = self._heal_each(list(self._lives.values()), by)
            for life in self._lives.values():
                life.clean()
                self._note_state(life)
            self._lives = {}
            self._publish()
        self._settle(freed)

    def beat(self) -> None:
        """Sign of life of whoever armed."""
        with self._lock:
            self._beat_ns = self._clock_ns()

    def tick(self, now_ns: int) -> None:
        """Heal what has run out by now: lost heartbeat, ttl, `for`, and effects that are over."""
        freed: list[Effect] = []
        with self._lock:
            if self._heartbeat_s is not None and now_ns - self._beat_ns > self._heartbeat_s * 1e9:
                freed += self._heal_each(list(self._lives.values()), "heartbeat")[1]
            for life in list(self._lives.values()):
                life.effects = [effect for effect in life.effects if effect.due_ns > now_ns]
                if life.state in CAN_FIRE and (ended_by := life.ended_by(now_ns)):
                    freed += self._heal(life, ended_by, now_ns)
                else:
                    self._finish_if_quiet(life, now_ns)
        self._settle(freed)

    def states(self) -> list[FaultState]:
        """Every fault since the last `clean`, in order of arming."""
        with self._lock:
            return [life.seen() for life in self._lives.values()]

    def _arming_problems(self, spec: FaultSpec, ids: set[str]) -> list[str]:
        problems = []
        if (spec.id, spec.n) in self._lives:
            problems.append(f"occurrence {spec.n} was armed already; give another n")
        awaited = spec.when.awaited()
        if awaited and awaited[0] not in ids:
            problems.append(
                f'after = "{spec.when.after}" waits for a fault that is not armed here{did_you_mean(awaited[0], ids)}'
            )
        return problems

    def _effect(self, life: Life, key: str, hit: int, now_ns: int) -> Effect:
        return Effect(
            life.resolved.action.kind,
            argument=life.spec.do.argument,
            seconds=life.resolved.seconds,
            start_ns=now_ns,
            due_ns=now_ns,
            clock_ns=self._clock_ns,
            fault=life.spec.id,
            n=life.spec.n,
            key=key,
            hit=hit,
            seed=life.spec.seed,
            waiter=self._waiter,
            on_over=partial(self._effect_over, life),
        )

    def _note_fire(self, notice: "_FireNotice", now_ns: int) -> None:
        life, effect = notice.life, notice.effect
        self._outbox.append(notice)
        first = life.note_fire(now_ns)
        if effect.kind in (Kind.DELAY, Kind.HANG):
            effect.due_ns = life.effect_due_ns(now_ns)
            life.effects.append(effect)
        if first:
            self._note_state(life)
            self._promote(now_ns)
        if life.gates.spent:
            life.begin_healing("times")
            self._note_state(life)
            self._publish()
            self._finish_if_quiet(life, now_ns)

    def _effect_over(self, life: Life, effect: Effect) -> None:
        with self._lock:
            if effect in life.effects:
                life.effects.remove(effect)
                self._finish_if_quiet(life, self._clock_ns())
        self._settle([])

    def _finish_if_quiet(self, life: Life, now_ns: int) -> None:
        if life.state is State.HEALING and not life.effects:
            life.finish_healing(now_ns)
            self._note_state(life)
            self._promote(now_ns)
            self._publish()

    def _heal_each(self, lives: Sequence[Life], by: str) -> tuple[int, list[Effect]]:
        now_ns = self._clock_ns()
        open_lives = [life for life in lives if life.state not in OVER]
        freed = [effect for life in open_lives for effect in self._heal(life, by, now_ns)]
        return len(open_lives), freed

    def _heal(self, life: Life, by: str, now_ns: int) -> list[Effect]:
        healing_already = life.state in (State.HEALING, State.SETUP)
        life.begin_healing(by)
        if not healing_already:
            self._note_state(life)
        freed = life.finish_healing(now_ns)
        self._note_state(life)
        self._promote(now_ns)
        self._publish()
        return freed

    def _promote(self, now_ns: int) -> None:
        """Arm those that wait in SETUP and whose `after` has come."""
        for life in self._lives.values():
            if life.state is State.SETUP and self._turn_has_come(life):
                life.arm(now_ns)
                self._note_state(life)
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
        snapshot: dict[str, tuple[Life, ...]] = {}
        for life in self._lives.values():
            if life.state in CAN_FIRE:
                name = life.spec.do.point
                snapshot[name] = (*snapshot.get(name, ()), life)
        self._snapshot = snapshot
        # Also while one only waits or heals: whoever skips `tick` when nothing is armed must not skip it then.
        self.armed = any(life.state not in OVER for life in self._lives.values())

    def _note_state(self, life: Life) -> None:
        self._outbox.append(_StateNotice(life.seen(), life))

    def _settle(self, freed: Sequence[Effect]) -> None:
        """Outside the lock: let go of what hangs, then tell what happened, in order."""
        try:
            call_all([effect.release for effect in freed])
        finally:
            with self._telling:
                while self._outbox:
                    self._tell(self._outbox.popleft())

    def _tell(self, notice: "_FireNotice | _StateNotice") -> None:
        try:
            if isinstance(notice, _FireNotice):
                self._on_fire(notice.fire)
            else:
                self._on_state(notice.seen)
        except Exception as error:
            notice.failed = True
            with self._lock:
                life = notice.life
                if life.state is State.CLEANED:
                    raise  # nobody would ever see the reason in `states`
                freed = life.invalidate(f"its evidence could not be written: {type(error).__name__}: {error}")
                self._publish()
                if isinstance(notice, _FireNotice):
                    self._note_state(life)  # not after a failed state notice: that would go on for ever
            call_all([effect.release for effect in freed])


class NullFaults:
    """Faults that are not compiled in: the same interface, nothing ever fires, arming is refused."""

    armed = False

    def fire(
        self,
        point: Point,
        *,
        key: str = "",
        size_bytes: int = 0,
        place: str = "before",
        step: int | None = None,
        request: str | None = None,
        group: str | None = None,
        **attrs: str | int | None,
    ) -> Effect | None:
        return None

    def arm(self, specs: Sequence[FaultSpec]) -> None:
        """Errors: SpecError, always."""
        raise SpecError(["faults are not compiled in; build the runtime with Faults instead of NullFaults to arm any"])

    def heal(self, fault: str, by: str, n: int | None = None) -> int:
        raise UnknownName(f'no fault "{fault}" is armed: faults are not compiled in')

    def heal_all(self, by: str) -> int:
        return 0

    def clean(self, by: str = "shutdown") -> None:
        return None

    def beat(self) -> None:
        return None

    def tick(self, now_ns: int) -> None:
        return None

    def states(self) -> list[FaultState]:
        return []


class _FireNotice:
    def __init__(self, fire: Fire, life: Life, effect: Effect) -> None:
        self.fire, self.life, self.effect, self.failed = fire, life, effect, False


class _StateNotice:
    def __init__(self, seen: FaultState, life: Life) -> None:
        self.seen, self.life, self.failed = seen, life, False


def _matches(life: Life, shown: dict[str, str | int | None]) -> bool:
    return all((value := shown.get(name)) is not None and str(value) == wanted for name, wanted in life.wanted)


def _in_words(life: Life, place: str, key: str, size_bytes: int, shown: dict[str, str | int | None]) -> str:
    facts = {"key": key or None, "size_bytes": size_bytes or None, **shown}
    told = [f"{name}={value}" for name, value in facts.items() if value is not None]
    return " ".join([f"{life.spec.do} {place}", *told])
