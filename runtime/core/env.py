"""One trial's surroundings: clock, chance, faults, ledger and marks. Everything is per Env, so two runs never meet."""

import random
from collections import Counter
from dataclasses import dataclass, field

from faults import Faults, NullFaults
from runtime.core.ledger import Ledger
from runtime.core.ports import Clock


class Marks:
    """Counts of the rare paths a run took (fallbacks, rungs of a ladder), by name; see `history.md`, table mark."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self._fresh: Counter[str] = Counter()

    def hit(self, name: str, n: int = 1) -> None:
        """Count `n` more of `name`."""
        self.total[name] += n
        self._fresh[name] += n

    def take(self) -> dict[str, int]:
        """What was counted since the last take, in order of first hit."""
        fresh, self._fresh = self._fresh, Counter()
        return dict(fresh)


@dataclass(slots=True)
class Env:
    """Passed to every layer; nothing in the runtime reads a clock, a seed or a fault from anywhere else."""

    clock: Clock
    seed: int
    faults: Faults | NullFaults
    ledger: Ledger
    marks: Marks = field(default_factory=Marks)

    def rng(self, name: str) -> random.Random:
        """A stream of chance of its own for `name`: adding one elsewhere never shifts this one."""
        return random.Random(f"{self.seed}/{name}")
