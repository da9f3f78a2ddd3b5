"""Where code that can break meets the faults that are armed.

A crossing reads `if faults.armed: faults.fire(POINT, ...)`; switched off that is an attribute read and a branch, see
benchmarks/points_off.py.

    fire ---- lock: window, scope, place, count, trigger ----> evidence out ----> raise, or Effect to the caller
    heal ---- lock: take it from those that can fire ------> let go of what hangs ----> evidence out

The lock is held for counting only. Waiting is done by the crossing code, on its Effect, with no lock held; so healing
never waits behind a fault that hangs, and arming needs no turn in the engine's mailbox.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from faults.active_faults import ActiveFaults, FireNotice, StateNotice
from faults.crossing import Crossing
from faults.effects import Effect, Waiter, call_all, wait_real
from faults.evidence import FaultState, Fire
from faults.fault_instance import FaultInstance, State
from faults.points import Catalogue, Point
from faults.resolve import resolve
from faults.spec import PLACES, FaultSpec, SpecError


class Faults:
    """The faults of one Env; no module state. Thread safe.

    `on_fire` and `on_state` are called in the order of events, one at a time, with no lock held that `fire` or `heal`
    needs to decide; keep them short. When one raises, its fault turns invalid with the reason: evidence that can't be
    written is no evidence. With `heartbeat_s`, all heals when neither `beat` nor `arm` was called for that long;
    somebody must call `tick` for that, from a thread that a hanging fault can't stop.
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
        # True while any fault is not over, also one that waits or heals: who ticks only when armed must tick then.
        self.armed = False
        self._catalogue, self._clock_ns = catalogue, clock_ns
        self._on_fire, self._on_state = on_fire, on_state
        self._heartbeat_s, self._waiter = heartbeat_s, waiter
        self._beat_ns = clock_ns()
        self._active = ActiveFaults(self._effect)
        self._lock = threading.Lock()
        self._telling = threading.RLock()  # re-entrant: a callback may ask for states, or heal

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

        Pass every attribute that the point's scope names, None where there is none now. When several faults match one
        crossing, each counts the hit and only the first that fires breaks it.
        """
        if point.name not in self._active.by_point:
            return None
        assert place in PLACES, f'"{point.name}" is crossed at place "{place}"; known: {", ".join(PLACES)}'
        shown = {"group": group, **attrs}
        with self._changing() as now_ns:
            notice = self._active.cross(Crossing(point, place, key, size_bytes, step, request, group, shown), now_ns)
        if notice is None or notice.failed:
            return None
        error = notice.instance.resolved.action.error
        if error is not None:
            raise error(
                f"injected by fault {notice.instance.spec.label}, hit {notice.fire.hit}: {notice.fire.evidence}"
            )
        return notice.effect

    def arm(self, specs: Sequence[FaultSpec]) -> None:
        """Arm all of them now, or none. `at` and `every` are the caller's to spend; one with `after` waits here.

        Errors: SpecError with all problems: unknown names, what the point does not permit, an (id, n) in use.
        """
        problems: list[str] = []
        instances: list[FaultInstance] = []
        try:
            instances = [FaultInstance(one) for one in resolve(specs, self._catalogue)]
        except SpecError as error:
            problems.extend(error.problems)
        with self._changing() as now_ns:
            problems.extend(self._active.arming_problems(specs))
            if problems:
                raise SpecError(problems)
            self._beat_ns = now_ns
            self._active.add(instances, now_ns)

    def heal(self, fault: str, by: str, n: int | None = None) -> int:
        """End a fault (all occurrences, or the n-th) and release what hangs on it; gives how many were not over yet.

        Never waits for the fault. Errors: UnknownName when no such fault was armed.
        """
        with self._changing() as now_ns:
            return self._active.heal_each(self._active.chosen(fault, n), by, now_ns)

    def heal_all(self, by: str) -> int:
        """End every fault; gives how many were not over yet. Safe to call twice, and at any time."""
        with self._changing() as now_ns:
            return self._active.heal_each(self._active.all(), by, now_ns)

    def clean(self, by: str = "shutdown") -> None:
        """Heal every fault and forget all of them, the invalid ones too: ids are free again."""
        with self._changing() as now_ns:
            self._active.heal_each(self._active.all(), by, now_ns)
            self._active.clean()

    def beat(self) -> None:
        """Sign of life of whoever armed."""
        with self._lock:
            self._beat_ns = self._clock_ns()

    def tick(self, now_ns: int) -> None:
        """Heal what has run out by now: lost heartbeat, ttl, `for`, and effects that are over."""
        with self._changing():
            if self._heartbeat_s is not None and now_ns - self._beat_ns > self._heartbeat_s * 1e9:
                self._active.heal_each(self._active.all(), "heartbeat", now_ns)
            self._active.tick(now_ns)

    def states(self) -> list[FaultState]:
        """Every fault since the last `clean`, in order of arming."""
        with self._lock:
            return [instance.seen() for instance in self._active.all()]

    @contextmanager
    def _changing(self) -> Iterator[int]:
        """Locked, at the time it gives; afterwards, no longer locked, let go of what hangs and tell what happened."""
        with self._lock:
            try:
                yield self._clock_ns()
            finally:
                self.armed = self._active.open
                freed = self._active.take_freed()
        try:
            call_all([effect.release for effect in freed])
        finally:
            self._tell_all()

    def _tell_all(self) -> None:
        # Whoever comes second waits until the first has told its notice too: a kill must find its fire on disk.
        with self._telling:
            while self._active.notices:
                notice = self._active.notices.popleft()
                try:
                    if isinstance(notice, FireNotice):
                        self._on_fire(notice.fire)
                    else:
                        self._on_state(notice.seen)
                except Exception as error:
                    self._telling_failed(notice, error)

    def _telling_failed(self, notice: FireNotice | StateNotice, error: Exception) -> None:
        with self._lock:
            if notice.instance.state is State.CLEANED:
                raise error  # `states` no longer knows this fault, so nobody would see the reason
            self._active.invalidate(
                notice.instance, f"its evidence could not be written: {type(error).__name__}: {error}"
            )
            if isinstance(notice, FireNotice):
                notice.failed = True
                self._active.note_state(notice.instance)  # a failed state is not told again: that might never end
            self.armed = self._active.open
            freed = self._active.take_freed()
        call_all([effect.release for effect in freed])

    def _effect(self, instance: FaultInstance, crossing: Crossing, hit: int, now_ns: int) -> Effect:
        return Effect(
            instance.resolved.action.kind,
            argument=instance.spec.do.argument,
            seconds=instance.resolved.seconds,
            start_ns=now_ns,
            due_ns=now_ns,
            clock_ns=self._clock_ns,
            fault=instance.spec.id,
            n=instance.spec.n,
            key=crossing.key,
            hit=hit,
            seed=instance.spec.seed,
            waiter=self._waiter,
            on_over=partial(self._effect_over, instance),
        )

    def _effect_over(self, instance: FaultInstance, effect: Effect) -> None:
        with self._changing() as now_ns:
            self._active.effect_over(instance, effect, now_ns)
