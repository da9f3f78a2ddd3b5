"""Who owns what, and limbo: nothing is reused before the work that touches it is done.

    take ------> live(owner) --release--> free            no launch in flight reads or writes it
                     |
                     `--defer(after=ticket)--> limbo --ticket completes--> free

An item may have several owners (a shared KV block); it is live until the last one gives it up, and counts once.

Free, cancel, preempt, swap, reset and defrag all end a holding here. A holding that nobody releases is a leak with a
name on it: `outstanding()` gives owners, `history()` their last events.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from runtime.core.ports import Ticket

_EVENTS_KEPT = 8


@dataclass(slots=True, eq=False)
class Limbo:
    """Items that wait for `after` before they go back to their pool through `back`."""

    owner: str
    pool: str
    items: list[int]
    after: Ticket
    since_ns: int
    back: Callable[[list[int]], None]


class Ledger:
    """Holdings by pool and owner. All calls but `complete` belong to the engine's thread."""

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._wake = wake
        self._held: dict[str, dict[str, list[int]]] = {}
        self._holders: dict[str, dict[int, int]] = {}
        self._limbo: list[Limbo] = []
        self._completed: deque[Ticket] = deque()
        self._events: dict[str, deque[str]] = {}

    def acquire(self, pool: str, owner: str, items: Sequence[int]) -> None:
        """`owner` now holds `items` of `pool`."""
        self._held.setdefault(pool, {}).setdefault(owner, []).extend(items)
        holders = self._holders.setdefault(pool, {})
        for item in items:
            holders[item] = holders.get(item, 0) + 1

    def release(self, pool: str, owner: str, items: Sequence[int]) -> None:
        """`owner` gives `items` up for good. Raises KeyError when it does not hold one of them: a double free."""
        owners = self._held.get(pool, {})
        held = owners.get(owner, [])
        if list(items) != held:
            left = held.copy()
            for item in items:
                if item not in left:
                    raise KeyError(f"{owner} gives back {pool} {item}, which it does not hold")
                left.remove(item)
            if left:
                owners[owner] = left
            else:
                del owners[owner]
        else:
            owners.pop(owner, None)
        holders = self._holders[pool]
        for item in items:
            if holders[item] == 1:
                del holders[item]
            else:
                holders[item] -= 1

    def defer(self, limbo: Limbo) -> None:
        """The holding ends now, the reuse only after `limbo.after` is done. A done ticket goes back at once."""
        if limbo.after.done:
            limbo.back(limbo.items)
        else:
            self._limbo.append(limbo)

    def complete(self, ticket: Ticket) -> None:
        """Called by a device, from any thread, when it has finished with `ticket`. The engine settles it later."""
        self._completed.append(ticket)
        self._wake()

    def settle(self) -> list[Ticket]:
        """Completed tickets in order of completion; their limbo has gone back to the pools."""
        done = []
        while self._completed:
            done.append(self._completed.popleft())
        if done and self._limbo:
            waiting, self._limbo = self._limbo, []
            for entry in waiting:
                self.defer(entry)
        return done

    def note(self, owner: str, t_ns: int, text: str) -> None:
        """Remember one line of `owner`'s life; the last few are shown beside a leak."""
        self._events.setdefault(owner, deque(maxlen=_EVENTS_KEPT)).append(f"{t_ns / 1e9:.3f}s {text}")

    def forget(self, owner: str) -> None:
        """`owner` ended. Its history is kept for as long as it still holds something: that is then a leak."""
        if not any(owner in owners for owners in self._held.values()):
            self._events.pop(owner, None)

    def history(self, owner: str) -> str:
        """The last lines of `owner`'s life, oldest first."""
        return "; ".join(self._events.get(owner, ()))

    def held(self, pool: str, owner: str) -> list[int]:
        """What `owner` holds of `pool` (a copy)."""
        return list(self._held.get(pool, {}).get(owner, ()))

    def live(self, pool: str) -> int:
        """Items of `pool` that some owner holds."""
        return len(self._holders.get(pool, ()))

    def holders(self, pool: str) -> Mapping[int, int]:
        """How many hold each item of `pool`; who is held by nobody is not in it."""
        return self._holders.setdefault(pool, {})

    def in_limbo(self, pool: str) -> int:
        """Items of `pool` that wait for a ticket and that nobody holds."""
        if not self._limbo:
            return 0
        waiting = {item for entry in self._limbo if entry.pool == pool for item in entry.items}
        return len(waiting - self._holders.get(pool, {}).keys())

    def limbo(self) -> tuple[Limbo, ...]:
        """All that waits, oldest first."""
        return tuple(self._limbo)

    def outstanding(self) -> Iterator[tuple[str, str, int]]:
        """(pool, owner, items) of every holding, in order of first acquisition."""
        for pool, owners in self._held.items():
            for owner, items in owners.items():
                yield pool, owner, len(items)
