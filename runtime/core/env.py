"""One trial's surroundings: clock, chance, faults, ledger and marks. Everything is per Env, so two runs never meet."""

import random
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field

from faults import DisabledFaults, Faults
from runtime.core.ledger import Ledger
from runtime.core.ports import Clock


class Counters:
    """Counts of the rare paths a run took (fallbacks, rungs of a ladder), by name; see `history.md`, table mark."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self._fresh: Counter[str] = Counter()

    def hit(self, name: str, n: int = 1) -> None:
        """Count `n` more of `name`."""
        self.total[name] += n
        self._fresh[name] += n

    @property
    def fresh(self) -> Set[str]:
        """Names of what was counted since the last take."""
        return self._fresh.keys()

    def take(self) -> dict[str, int]:
        """What was counted since the last take, in order of first hit."""
        fresh, self._fresh = self._fresh, Counter()
        return dict(fresh)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened once and matters to a judge; see `history.md`, table event."""

    t_ns: int
    kind: str
    value: str
    detail: str

    @property
    def columns(self) -> tuple[float | None, str]:
        """Value and detail of its row of table event: a value that is no number goes in front of the detail."""
        try:
            return float(self.value), self.detail
        except ValueError:
            return None, f"{self.value}: {self.detail}" if self.value else self.detail


class Events:
    """What a step has to tell beside its outputs. Taken once a step by whoever writes the history."""

    def __init__(self) -> None:
        self._fresh: list[Event] = []

    def tell(self, t_ns: int, kind: str, value: str = "", detail: str = "") -> None:
        """Add one."""
        self._fresh.append(Event(t_ns, kind, value, detail))

    def take(self) -> list[Event]:
        """All since the last take, in order."""
        fresh, self._fresh = self._fresh, []
        return fresh


@dataclass(slots=True)
class Env:
    """Passed to every layer; nothing in the runtime reads a clock, a seed or a fault from anywhere else."""

    clock: Clock
    seed: int
    faults: Faults | DisabledFaults
    ledger: Ledger
    counters: Counters = field(default_factory=Counters)
    events: Events = field(default_factory=Events)

    @classmethod
    def quiet(cls) -> "Env":
        """For a part that runs outside of a runtime: no faults, and a clock that stands still."""
        return cls(_StoppedClock(), 0, DisabledFaults(), Ledger())

    def tell(self, kind: str, value: str = "", detail: str = "") -> None:
        """Record an event now."""
        self.events.tell(self.clock.now_ns(), kind, value, detail)

    def rng(self, name: str) -> random.Random:
        """A stream of chance of its own for `name`: adding one elsewhere never shifts this one."""
        return random.Random(f"{self.seed}/{name}")


class _StoppedClock:
    """Nobody asks how long anything takes."""

    def now_ns(self) -> int:
        return 0
