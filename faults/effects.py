"""The effect of a fire tells the crossing code which damage to do, and for how long."""

import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from faults import draw
from faults.points import Kind
from faults.spec import FaultSpec

Waiter = Callable[[threading.Event, float], object]


class Timer(Protocol):
    """A clock with callbacks: virtual time, or an event loop."""

    def now_ns(self) -> int: ...

    def at(self, t_ns: int, call: Callable[[], object]) -> object:
        """Call back at `t_ns`, which is not in the past. Thread safe if other threads release effects."""
        ...


def wait_real(event: threading.Event, seconds: float) -> None:
    """Wait in real time until the event is set or the seconds are over."""
    event.wait(seconds)


class Effect:
    """One fire to be carried out by the crossing code, see `Kind`. Thread safe.

    `due_ns`, on the clock of the injector, is the latest end of the effect: its duration from the start on, and never
    later than the fault's `max_lifetime_s` allows. The crossing code waits for `due_ns` or the release, whichever is
    first: with `wait` on its own thread, or with `then`.
    """

    def __init__(
        self,
        kind: Kind,
        spec: FaultSpec,
        key: str,
        hit: int,
        due_ns: int,
        clock_ns: Callable[[], int],
        waiter: Waiter,
        on_over: Callable[["Effect"], None],
    ) -> None:
        self.kind, self.argument, self.hit, self.due_ns = kind, spec.do.argument, hit, due_ns
        self.spec, self._key = spec, key
        self._clock_ns, self._waiter, self._on_over = clock_ns, waiter, on_over
        self._gone = threading.Event()
        self._call_on_release: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Block until the release or `due_ns`. The duration counts from the start of the effect, not from this call."""
        left_s = (self.due_ns - self._clock_ns()) / 1e9
        if left_s > 0:  # one wait without a loop over the clock, so that a stopped clock can't make it endless
            self._waiter(self._gone, left_s)
        self._on_over(self)

    def then(self, call: Callable[[], object], timer: Timer) -> None:
        """Call back once, by the timer, when the effect is over or released. This is for code that must not block, such
        as an event loop or virtual time; code with its own thread calls `wait`."""
        called = False

        def end() -> None:
            nonlocal called
            if not called:
                called = True
                self._on_over(self)  # now, before the injector's next tick
                call()

        timer.at(max(self.due_ns, timer.now_ns()), end)
        self.on_release(lambda: timer.at(timer.now_ns(), end))

    @property
    def released(self) -> bool:
        """True once the fault is healed, so that a hang must end."""
        return self._gone.is_set()

    def on_release(self, call: Callable[[], object]) -> None:
        """Call back once at the release (now if it is past), from the thread that heals. `call` must be short."""
        with self._lock:
            if not self.released:
                self._call_on_release.append(call)
                return
        call()

    def release(self) -> None:
        """End the effect now. The injector calls this when it heals; a second call does nothing."""
        with self._lock:
            if self.released:
                return
            self._gone.set()
            calls, self._call_on_release = self._call_on_release, []
        call_all(calls)

    def pick(self, options: int, what: str = "") -> int:
        """Draw a number in [0, options), such as the bit to flip. It is equal in every run with this seed."""
        return draw.pick(options, self.spec.seed, self.spec.id, self.spec.n, self._key, self.hit, what)

    @property
    def number(self) -> float:
        """The argument as a number, for an action that takes one."""
        assert self.argument is not None, f"{self.spec.id}: the action has no argument"
        return float(self.argument)

    def __repr__(self) -> str:
        return f"Effect({self.kind.value}, fault={self.spec.label}, hit={self.hit}, argument={self.argument!r})"


def call_all(calls: Iterable[Callable[[], object]]) -> None:
    """Make every call, also after one raises. Errors: ExceptionGroup with all exceptions."""
    errors: list[Exception] = []
    for call in calls:
        try:
            call()
        except Exception as error:
            errors.append(error)
    if errors:
        raise ExceptionGroup("callbacks failed while faults were healed", errors)
