"""The trigger of a fault decides which hits fire: skip, interval, times, space, probability, in this order.

It is pure counting, with no clock and no lock.

    hit       1 2 3 4 5 6 7 8 9 10 11       skip = 3, interval = 3, times = 2
    may fire        .     F     F
    why             skip  |--3--|           later: times used up

All counts but `times` are per key, so the hits of a key that may fire do not depend on other threads. Only the last
fires of `times` go to the keys that are crossed first.
"""

from faults.draw import draw
from faults.spec import FaultSpec

KEYS_MAX = 65_536
"""Most keys that are counted. A fault whose keys are request ids would otherwise grow all night like a leak of the
server. A key that is not crossed while this many others are starts again at 0."""


class Trigger:
    """The counters of one armed fault."""

    __slots__ = ("_by_key", "_spec", "fired", "hits")

    def __init__(self, spec: FaultSpec) -> None:
        self._spec = spec
        self.hits = 0
        self.fired = 0
        self._by_key: dict[str, _KeyCount] = {}  # least recently crossed first

    def count(self, key: str) -> int:
        """Count one matching crossing and return its number among those of its key, from 1."""
        self.hits += 1
        counted = self._by_key.pop(key, None) or _KeyCount()
        if len(self._by_key) >= KEYS_MAX:
            del self._by_key[next(iter(self._by_key))]
        self._by_key[key] = counted
        counted.hits += 1
        return counted.hits

    def may_fire(self, key: str, hit: int, size_bytes: int) -> bool:
        """Decide whether this hit fires. A crossing that fails the test of `space_bytes` uses up space."""
        spec, when = self._spec, self._spec.when
        if spec.persist and self.fired:
            return True
        if hit <= when.skip or (hit - when.skip - 1) % when.interval:
            return False
        if self.spent:
            return False
        counted = self._by_key[key]
        if when.space_bytes and counted.used_bytes + size_bytes <= when.space_bytes:
            counted.used_bytes += size_bytes
            return False
        return when.probability >= 1.0 or draw(spec.seed, spec.id, spec.n, key, hit) < when.probability

    @property
    def spent(self) -> bool:
        """True when all of `times` is used up. A persistent fault is never spent; it ends when it is healed."""
        return not self._spec.persist and self._spec.when.times is not None and self.fired >= self._spec.when.times

    def forget_keys(self) -> None:
        """Free the counts of the keys. The totals stay."""
        self._by_key.clear()


class _KeyCount:
    __slots__ = ("hits", "used_bytes")

    def __init__(self) -> None:
        self.hits = 0
        self.used_bytes = 0
