"""The turns of a virtual run, and two watches that end a run which does not get on.

    TURNS_MAX turns in a moment of virtual time                       -> ClockStands is raised in the loop of the world
    LOOKS_MAX looks without a new turn, one each LOOK_S of CPU time   -> Overdue is raised where the loop is
    SIGNALLED_S without a new turn after the first SIGINT or SIGTERM  -> the same

CPU time and not wall time, so that a busy machine is not mistaken for a loop.
"""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from harness.trial.stop import Overdue, Stop
from runtime.core.mechanism import in_runtime, places_from, where

MOMENT_NS = 1_000_000
TURNS_MAX = 50_000
"""The fastest launches, 1 us each, take 2,000 turns in a moment."""
LOOK_S = 5.0
LOOKS_MAX = 4
SIGNALLED_S = 5.0


class ClockStands(Exception):
    """The runtime takes turn after turn, and its clock does not move. The text says who waits for what."""


class Turns:
    """Counts the turns of a world. `waits` returns who waits for what."""

    def __init__(self, waits: Callable[[], str]) -> None:
        self.begun = 0
        self._waits = waits
        self._moment_ns = self._before = 0

    def begin(self, now_ns: int) -> None:
        """Count a turn. Raises ClockStands after TURNS_MAX turns in one moment."""
        self.begun += 1
        if now_ns - self._moment_ns >= MOMENT_NS:
            self._moment_ns, self._before = now_ns, self.begun
        elif self.begun - self._before > TURNS_MAX:
            self._before = self.begun
            raise ClockStands(f"{TURNS_MAX} turns at {now_ns / 1e9:.6f} s, and time does not move; {self._waits()}")


class TurnWatch:
    """Watches the turns of a run inside `with`, in the main thread: no turn may take for ever."""

    def __init__(self, turns: Turns, stop: Stop) -> None:
        self._turns = turns
        self._stop = stop
        self._seen = -1
        self._looks = 0
        self._signalled_at = -1
        """Turns at the last look after a signal."""
        self._signal_due = False
        """True when a look after a signal is due."""
        self._over = threading.Event()
        self._before: Any = None

    def __enter__(self) -> "TurnWatch":
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGVTALRM, self._look)
            signal.setitimer(signal.ITIMER_VIRTUAL, LOOK_S, LOOK_S)
            self._stop.on_first = self._signalled
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._before is None:
            return
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        self._stop.on_first = lambda: None
        self._over.set()
        signal.signal(signal.SIGVTALRM, self._before)

    def _look(self, number: int, frame: FrameType | None) -> None:
        turns = self._turns.begun
        if self._signal_due:
            self._signal_due, before, self._signalled_at = False, self._signalled_at, turns
            if turns == before:
                raise self._overdue(frame, f"no turn ended within {SIGNALLED_S:g} s", signalled=True)
        self._looks = self._looks + 1 if turns == self._seen else 0
        self._seen = turns
        if self._looks >= LOOKS_MAX:
            self._looks = 0
            raise self._overdue(frame, f"no turn ended within {LOOK_S * LOOKS_MAX:g} s of CPU time", signalled=False)

    def _overdue(self, frame: FrameType | None, why: str, *, signalled: bool) -> Overdue:
        places = list(places_from(frame))
        return Overdue(f"{why}: {where(places)}", in_target=in_runtime(places), signalled=signalled)

    def _signalled(self) -> None:
        """Called in the main thread at the first signal."""
        self._signalled_at, main = self._turns.begun, threading.get_ident()

        def look_on() -> None:
            while not self._over.wait(SIGNALLED_S):
                self._signal_due = True
                signal.pthread_kill(main, signal.SIGVTALRM)

        threading.Thread(target=look_on, name="turn-watch", daemon=True).start()
