"""Who owns what, and limbo: nothing is reused before the work that touches it is done.

    take ------> live(owner) --release--> free            no launch in flight reads or writes it
                     |
                     `--defer(after=ticket)--> limbo --ticket completes--> free

An item may have several owners (a shared KV block); it is live until the last one gives it up, and counts once.

Free, cancel, preempt, swap, reset and defrag all end a holding here. A holding that nobody releases is a leak with a
name on it: `outstanding()` gives owners, `history()` their last events.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
        self._held: defaultdict[str, dict[str, list[int]]] = defaultdict(dict)
        self._live: defaultdict[str, set[int]] = defaultdict(set)
        self._more: defaultdict[str, dict[int, int]] = defaultdict(dict)
        """How many hold an item beside the first one; who has one owner is not in it."""
        self._limbo: list[Limbo] = []
        self._completed: deque[Ticket] = deque()
        self._events: dict[str, list[tuple[int, str]]] = {}

    def acquire(self, pool: str, owner: str, items: Sequence[int]) -> bool:
        """`owner` now holds `items` of `pool`. Returns whether nobody held any of them before."""
        owners = self._held[pool]
        if owner in owners:
            owners[owner] += items
        else:
            owners[owner] = list(items)
        live = self._live[pool]
        if len(items) == 1 and items[0] not in live:
            live.add(items[0])
            return True
        if live.isdisjoint(items):
            then = len(live) + len(items)
            live.update(items)
            if len(live) == then:
                return True
            live.difference_update(items)  # one of them comes twice
        more = self._more[pool]
        for item in items:
            if item in live:
                more[item] = more.get(item, 0) + 1
            else:
                live.add(item)
        return False

    def release(self, pool: str, owner: str, items: Sequence[int]) -> Sequence[int]:
        """`owner` gives `items` up for good. Returns those that nobody holds any more. Raises KeyError when it does not
        hold one of them: a double free."""
        owners = self._held[pool]
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
        live, more = self._live[pool], self._more[pool]
        if more and not more.keys().isdisjoint(items):
            items = [item for item in items if not _one_less(more, item)]
        live.difference_update(items)
        return items

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
        events = self._events.get(owner)
        if events is None:
            self._events[owner] = [(t_ns, text)]
            return
        events.append((t_ns, text))
        if len(events) > _EVENTS_KEPT:
            del events[0]

    def forget(self, owner: str) -> None:
        """`owner` ended. Its history is kept for as long as it still holds something: that is then a leak."""
        for owners in self._held.values():
            if owner in owners:
                return
        self._events.pop(owner, None)

    def history(self, owner: str) -> str:
        """The last lines of `owner`'s life, oldest first."""
        return "; ".join(f"{t_ns / 1e9:.3f}s {text}" for t_ns, text in self._events.get(owner, ()))

    def held(self, pool: str, owner: str) -> list[int]:
        """What `owner` holds of `pool` (a copy)."""
        return list(self._held[pool].get(owner, ()))

    def live(self, pool: str) -> int:
        """Items of `pool` that some owner holds."""
        return len(self._live[pool])

    def holders(self, pool: str) -> Mapping[int, int]:
        """How many hold each item of `pool`; who is held by nobody is not in it."""
        return Holders(self._live[pool], self._more[pool])

    def has_shared(self, pool: str) -> bool:
        """Whether some item of `pool` has more than one owner."""
        return bool(self._more[pool])

    def in_limbo(self, pool: str) -> int:
        """Items of `pool` that wait for a ticket and that nobody holds."""
        if not self._limbo:
            return 0
        waiting = {item for entry in self._limbo if entry.pool == pool for item in entry.items}
        return len(waiting - self._live[pool])

    def limbo(self) -> tuple[Limbo, ...]:
        """All that waits, oldest first."""
        return tuple(self._limbo)

    def leaked(self, pool: str, alive: Collection[str]) -> int:
        """Items of `pool` that are held by owners who are not `alive`."""
        return sum(len(items) for owner, items in self._held[pool].items() if owner not in alive)

    def outstanding(self) -> Iterator[tuple[str, str, int]]:
        """(pool, owner, items) of every holding, in order of first acquisition."""
        for pool, owners in self._held.items():
            for owner, items in owners.items():
                yield pool, owner, len(items)


class Holders(Mapping[int, int]):
    """How many hold each item of a pool."""

    def __init__(self, live: set[int], more: dict[int, int]) -> None:
        self._live, self._more = live, more

    def __getitem__(self, item: int) -> int:
        if item not in self._live:
            raise KeyError(item)
        return 1 + self._more.get(item, 0)

    def __contains__(self, item: object) -> bool:
        return item in self._live

    def __iter__(self) -> Iterator[int]:
        return iter(self._live)

    def __len__(self) -> int:
        return len(self._live)


def _one_less(more: dict[int, int], item: int) -> bool:
    """Somebody beside the first one has left. False when there was nobody else."""
    if item not in more:
        return False
    if more[item] == 1:
        del more[item]
    else:
        more[item] -= 1
    return True
