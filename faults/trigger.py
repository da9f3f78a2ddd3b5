"""The trigger of a fault decides which hits fire: skip, interval, times, space, probability, in this order.

It is pure counting, with no clock and no lock.

    hit       1 2 3 4 5 6 7 8 9 10 11       skip = 3, interval = 3, times = 2
    may fire        .     F     F
    why             skip  |--3--|           later: times used up

Everything is counted per key but `times`, so which hits of a key may fire does not depend on what other threads do.
Only who gets the last of `times` is decided by who comes first.
"""

from faults.draw import draw
from faults.spec import FaultSpec

# A fault armed for a night over request ids must not look like a leak of the server it sits in. A key that was not
# seen while this many others were starts counting anew.
KEYS_MAX = 65_536


class Trigger:
    """The counters of one armed fault."""

    __slots__ = ("_by_key", "_spec", "fired", "hits")

    def __init__(self, spec: FaultSpec) -> None:
        self._spec = spec
        self.hits = 0
        self.fired = 0
        self._by_key: dict[str, _KeyCount] = {}  # least recently crossed first

    def count(self, key: str) -> int:
        """Note one matching crossing; gives its number among those of its key, from 1."""
        self.hits += 1
        counted = self._by_key.pop(key, None) or _KeyCount()
        if len(self._by_key) >= KEYS_MAX:
            del self._by_key[next(iter(self._by_key))]
        self._by_key[key] = counted
        counted.hits += 1
        return counted.hits

    def may_fire(self, key: str, hit: int, size_bytes: int) -> bool:
        """Decide whether this hit fires. Crossings that reach the space gate and don't pass it are charged to it."""
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
        """All of `times` is used up; never for a persistent fault, which ends only when healed."""
        return not self._spec.persist and self._spec.when.times is not None and self.fired >= self._spec.when.times

    def forget_keys(self) -> None:
        """Give the memory of the keys back; the totals stay."""
        self._by_key.clear()


class _KeyCount:
    __slots__ = ("hits", "used_bytes")

    def __init__(self) -> None:
        self.hits = 0
        self.used_bytes = 0
