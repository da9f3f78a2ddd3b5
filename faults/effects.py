"""The effect of a fire tells the crossing code which damage to do, and for how long."""

import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from faults import draw
from faults.points import Kind

Waiter = Callable[[threading.Event, float], bool]


class Timer(Protocol):
    """A clock with callbacks: virtual time, or an event loop."""

    def now_ns(self) -> int: ...

    def at(self, t_ns: int, call: Callable[[], object]) -> object:
        """Call back at `t_ns`, which is not in the past. Thread safe if other threads release effects."""
        ...


def wait_real(event: threading.Event, seconds: float) -> bool:
    """Wait in real time until the event is set or the seconds are over. Returns True when it is set."""
    return event.wait(seconds)


class Effect:
    """One fire to be carried out by the crossing code, see `Kind`. Thread safe.

    `seconds` is the duration in the argument (None: no duration). `due_ns`, on the clock of the injector, is the
    latest end of the effect: start + seconds, and never later than the fault's `max_lifetime_s` allows. The crossing
    code waits for `due_ns` or the release, whichever is first: with `wait` on its own thread, or with `then`.
    """

    def __init__(
        self,
        kind: Kind,
        *,
        argument: str | None = None,
        seconds: float | None = None,
        start_ns: int,
        due_ns: int,
        clock_ns: Callable[[], int],
        fault: str = "",
        n: int = 0,
        key: str = "",
        hit: int = 1,
        seed: int = 0,
        waiter: Waiter = wait_real,
        on_over: Callable[["Effect"], None] | None = None,
    ) -> None:
        self.kind, self.argument, self.seconds = kind, argument, seconds
        self.start_ns, self.due_ns = start_ns, due_ns
        self.fault, self.n, self.key, self.hit = fault, n, key, hit
        self._seed, self._clock_ns, self._waiter, self._on_over = seed, clock_ns, waiter, on_over
        self._gone = threading.Event()
        self._released = False
        self._call_on_release: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the release or `due_ns` (returns True), at most `timeout_s` (returns False: not over yet).

        The duration counts from the start of the effect, so several calls together wait no longer than one.
        """
        left_s = max(0.0, (self.due_ns - self._clock_ns()) / 1e9)
        wait_s = left_s if timeout_s is None else min(left_s, timeout_s)
        # One wait without a loop over the clock, so that a stopped clock can't make it endless.
        released = wait_s > 0 and self._waiter(self._gone, wait_s)
        over = released or self._gone.is_set() or wait_s == left_s
        if over and self._on_over is not None:
            self._on_over(self)
        return over

    def then(self, call: Callable[[], object], timer: Timer) -> None:
        """Call back once, by the timer, when the effect is over or released. This is for code that must not block, such
        as an event loop or virtual time; code with its own thread calls `wait`."""
        called = False

        def end() -> None:
            nonlocal called
            if not called:
                called = True
                self.wait(0)  # reports the end to the injector before its next tick
                call()

        timer.at(max(self.due_ns, timer.now_ns()), end)
        self.on_release(lambda: timer.at(timer.now_ns(), end))

    @property
    def released(self) -> bool:
        """True once the fault is healed, so that a hang must end."""
        return self._released

    def on_release(self, call: Callable[[], object]) -> None:
        """Call back once at the release (now if it is past), from the thread that heals. `call` must be short."""
        with self._lock:
            if not self._released:
                self._call_on_release.append(call)
                return
        call()

    def release(self) -> None:
        """End the effect now. The injector calls this when it heals; a second call does nothing."""
        with self._lock:
            if self._released:
                return
            self._released = True
            calls, self._call_on_release = self._call_on_release, []
        self._gone.set()
        call_all(calls)

    def pick(self, options: int, what: str = "") -> int:
        """Draw a number in [0, options), such as the bit to flip. It is equal in every run with this seed."""
        return draw.pick(options, self._seed, self.fault, self.n, self.key, self.hit, what)

    @property
    def number(self) -> float:
        """The argument as a number, for an action that takes one."""
        assert self.argument is not None, f"{self.fault}: the action has no argument"
        return float(self.argument)

    def __repr__(self) -> str:
        return f"Effect({self.kind.value}, fault={self.fault}/{self.n}, hit={self.hit}, argument={self.argument!r})"


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
