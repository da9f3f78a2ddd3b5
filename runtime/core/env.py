"""The environment of one trial: clock, random seed, faults, ledger, counters and events. Two Envs share no state."""

import random
from collections import Counter, deque
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass, field

from faults import DisabledFaults, Faults
from runtime.core.ledger import Ledger
from runtime.core.mechanism import mechanism
from runtime.core.ports import Clock

FALLBACKS = (
    "contract.copied",
    "contract.cast",
    "contract.rebuilt",
    "engine.step_repeated",
    "kv.preempt",
    "swap.refused",
)
"""The counters of paths that a step takes when its first path is closed."""


class Counters:
    """Counts of the rare paths that a run took (fallbacks, rungs of a ladder) by name; see `history.md`, table mark."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self._fresh: Counter[str] = Counter()

    def hit(self, name: str, n: int = 1) -> None:
        """Add `n` to the counter `name`."""
        self.total[name] += n
        self._fresh[name] += n

    @property
    def fallbacks(self) -> int:
        """How often a step took another path than its first (FALLBACKS)."""
        return sum(self.total[name] for name in FALLBACKS)

    @property
    def fresh(self) -> Set[str]:
        """The names that were counted since the last take."""
        return self._fresh.keys()

    def take(self) -> dict[str, int]:
        """Return the counts since the last take, by name, in order of first hit."""
        fresh, self._fresh = self._fresh, Counter()
        return dict(fresh)


@dataclass(frozen=True, slots=True)
class Event:
    """A single occurrence that judges read; see `history.md`, table event."""

    t_ns: int
    kind: str
    value: str
    detail: str

    @property
    def columns(self) -> tuple[float | None, str]:
        """The value and the detail of the event's row in table event. The column is a number: a value that is not one
        is written in front of the detail."""
        try:
            return float(self.value), self.detail
        except ValueError:
            return None, f"{self.value}: {self.detail}" if self.value else self.detail


class Events:
    """The events since the last take. The writer of the history takes them once a step. Thread-safe."""

    def __init__(self) -> None:
        self._fresh: deque[Event] = deque()

    def tell(self, t_ns: int, kind: str, value: str = "", detail: str = "") -> None:
        """Add an event."""
        self._fresh.append(Event(t_ns, kind, value, detail))

    def take(self) -> list[Event]:
        """Return the events since the last take, oldest first."""
        taken: list[Event] = []
        with suppress(IndexError):  # another thread may take the last one
            while self._fresh:
                taken.append(self._fresh.popleft())
        return taken


@dataclass(slots=True)
class Env:
    """The environment of every layer: the runtime's only source of time, randomness and faults."""

    clock: Clock
    seed: int
    faults: Faults | DisabledFaults
    ledger: Ledger
    counters: Counters = field(default_factory=Counters)
    events: Events = field(default_factory=Events)

    @classmethod
    def quiet(cls) -> "Env":
        """Return an Env for a component that runs outside of a runtime: no faults, and a clock that stays at 0."""
        return cls(_StoppedClock(), 0, DisabledFaults(), Ledger())

    def tell(self, kind: str, value: str = "", detail: str = "") -> None:
        """Record an event at the present time."""
        self.events.tell(self.clock.now_ns(), kind, value, detail)

    def tell_exception(self, error: BaseException, step: int | None = None) -> str:
        """Record an exception that no code of the runtime expects. Return its mechanism."""
        text = mechanism(error, step)
        self.tell("exception", "", text)
        return text

    def rng(self, name: str) -> random.Random:
        """Return a random generator that depends on the seed and `name` alone: new generators never shift others."""
        return random.Random(f"{self.seed}/{name}")


class _StoppedClock:
    """A clock that always says 0 ns."""

    def now_ns(self) -> int:
        return 0
