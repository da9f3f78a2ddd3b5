"""The injector decides at each crossing of a fault point whether an armed fault fires, and heals faults.

A crossing reads `if faults.armed: faults.fire(POINT, ...)`. While no fault is armed, this costs an attribute read and a
branch, see benchmarks/points_off.py.

    fire ---- lock: time, scope, place, count, trigger ----> report the fire ----> raise, or return an Effect
    heal ---- lock: the fault can't fire any more ---------> release its effects -> report the state

The lock is held only for counting. The crossing code waits on its Effect without a lock, so healing never waits for a
fault that hangs, and arming needs no step of the engine.
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
    """The faults of one Env. Thread safe.

    `on_fire` and `on_state` are called in the order of events, one at a time, and without the lock that decides; they
    must be short. When one raises, its fault becomes invalid with the reason, because its evidence is incomplete. With
    `heartbeat_s` all faults heal when neither `beat` nor `arm` was called for that long. The owner calls `tick`
    regularly for that, from a thread that a hanging fault can't stop.
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
        # True while any fault is not over, also one that waits or heals, because it still needs `tick`.
        self.armed = False
        self._catalogue, self._clock_ns = catalogue, clock_ns
        self._on_fire, self._on_state = on_fire, on_state
        self._heartbeat_s, self._waiter = heartbeat_s, waiter
        self._beat_ns = clock_ns()
        self._active = ActiveFaults(self._effect)
        self._lock = threading.Lock()
        self._reporting = threading.RLock()  # re-entrant, because a callback may read states or heal

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
        """Cross a point. Returns None when nothing fires, else an Effect to carry out; raises the error of an action.

        The caller passes every attribute that the point's scope names, with None where it has no value now. When
        several faults match one crossing, each counts the hit and only the first that fires takes effect.
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
        """Arm all specs now, or none. The caller has waited for `at` and `every`; a spec with `after` waits here.

        Errors: SpecError with all problems: unknown names, values that the point does not permit, an (id, n) in use.
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
        """End a fault (all occurrences, or the n-th), release its effects, and return how many were not over yet.

        It never waits for the fault. Errors: UnknownName when no such fault was armed.
        """
        with self._changing() as now_ns:
            return self._active.heal_each(self._active.chosen(fault, n), by, now_ns)

    def heal_all(self, by: str) -> int:
        """End every fault and return how many were not over yet. Safe to call twice, and at any time."""
        with self._changing() as now_ns:
            return self._active.heal_each(self._active.all(), by, now_ns)

    def clean(self) -> None:
        """Heal every fault and forget all of them, also invalid ones. Their ids can be used again."""
        with self._changing() as now_ns:
            self._active.heal_each(self._active.all(), "shutdown", now_ns)
            self._active.clean()

    def beat(self) -> None:
        """Note that the harness is alive."""
        with self._lock:
            self._beat_ns = self._clock_ns()

    def tick(self, now_ns: int) -> None:
        """Heal the faults whose heartbeat, ttl or `for` is over at `now_ns`, and finish those whose effects are."""
        with self._changing():
            if self._heartbeat_s is not None and now_ns - self._beat_ns > self._heartbeat_s * 1e9:
                self._active.heal_each(self._active.all(), "heartbeat", now_ns)
            self._active.tick(now_ns)

    def states(self) -> list[FaultState]:
        """Every fault since the last `clean`, in order of arming."""
        with self._lock:
            return [instance.to_state() for instance in self._active.all()]

    @contextmanager
    def _changing(self) -> Iterator[int]:
        """Hold the lock and give the time; after it, without the lock, release freed effects and report all notices."""
        with self._lock:
            try:
                yield self._clock_ns()
            finally:
                self.armed = self._active.open
                freed = self._active.take_freed()
        try:
            call_all([effect.release for effect in freed])
        finally:
            self._report_all()

    def _report_all(self) -> None:
        # A second thread waits until the first has reported, so that a fire is on disk before its kill.
        with self._reporting:
            while self._active.notices:
                notice = self._active.notices.popleft()
                try:
                    if isinstance(notice, FireNotice):
                        self._on_fire(notice.fire)
                    else:
                        self._on_state(notice.state)
                except Exception as error:
                    self._report_failed(notice, error)

    def _report_failed(self, notice: FireNotice | StateNotice, error: Exception) -> None:
        with self._lock:
            if notice.instance.state is State.CLEANED:
                raise error  # `states` no longer lists this fault, so the reason would be lost
            self._active.invalidate(
                notice.instance, f"its evidence could not be written: {type(error).__name__}: {error}"
            )
            if isinstance(notice, FireNotice):
                notice.failed = True
                self._active.note_state(notice.instance)  # once: a failed StateNotice is not repeated
            self.armed = self._active.open
            freed = self._active.take_freed()
        call_all([effect.release for effect in freed])

    def _effect(self, instance: FaultInstance, crossing: Crossing, hit: int, now_ns: int) -> Effect:
        over = partial(self._effect_over, instance)
        kind = instance.resolved.action.kind
        return Effect(kind, instance.spec, crossing.key, hit, now_ns, self._clock_ns, self._waiter, over)

    def _effect_over(self, instance: FaultInstance, effect: Effect) -> None:
        with self._changing() as now_ns:
            self._active.effect_over(instance, effect, now_ns)
