"""The owners of pool items, and limbo: no item is reused before the launch that reads or writes it is done.

    acquire ---> live(owner) --release--> free            no launch in flight reads or writes it
                     |
                     `--defer(after=ticket)--> limbo --ticket completes--> free

An item (a KV block or a span, by number) may have several owners. It is live until its last owner releases it, and it
counts once.

Free, cancel, preempt, swap, reset and defrag all end a holding here. A holding that is never released is a leak:
`outstanding()` names its owner, `history()` gives the owner's last events.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from runtime.core.ports import Ticket

_EVENTS_KEPT = 8
_ENDED_KEPT = 512
"""Owners that hold nothing and whose histories are kept: a block may be missed after its last owner has ended."""


@dataclass(slots=True, eq=False)
class Limbo:
    """Items that are returned to their pool through `back` once the ticket `after` is done."""

    owner: str
    pool: str
    items: list[int]
    after: Ticket
    since_ns: int
    back: Callable[[list[int]], None]


class Ledger:
    """Holdings by pool and owner. `complete` may be called from any thread, all else from the engine's thread only."""

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._wake = wake
        self._held: defaultdict[str, dict[str, list[int]]] = defaultdict(dict)
        self._live: defaultdict[str, set[int]] = defaultdict(set)
        self._extra_owners: defaultdict[str, dict[int, int]] = defaultdict(dict)
        """Owners of each item beside the first one. Items with a single owner have no entry."""
        self._limbo: list[Limbo] = []
        self._completed: deque[Ticket] = deque()
        self._last_owner: defaultdict[str, dict[int, str]] = defaultdict(dict)
        self._events: dict[str, list[tuple[int, str]]] = {}
        self._ended: dict[str, list[tuple[int, str]]] = {}
        """The histories of the owners that were forgotten last."""

    def acquire(self, pool: str, owner: str, items: Sequence[int]) -> bool:
        """Record that `owner` holds `items` of `pool`. Return whether none of them had an owner before."""
        self._last_owner[pool].update(dict.fromkeys(items, owner))
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
            live.difference_update(items)  # `items` repeats one of them
        extra = self._extra_owners[pool]
        for item in items:
            if item in live:
                extra[item] = extra.get(item, 0) + 1
            else:
                live.add(item)
        return False

    def release(self, pool: str, owner: str, items: Sequence[int]) -> Sequence[int]:
        """End the holding of `items` by `owner`. Return the items that have no owner any more.

        Raises KeyError when `owner` does not hold one of them (a double free).
        """
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
        live, extra = self._live[pool], self._extra_owners[pool]
        if extra and not extra.keys().isdisjoint(items):
            items = [item for item in items if not _drop_owner(extra, item)]
        live.difference_update(items)
        return items

    def defer(self, limbo: Limbo) -> None:
        """Return the items to their pool once `limbo.after` is done: at once when it is done already."""
        if limbo.after.done:
            limbo.back(limbo.items)
        else:
            self._limbo.append(limbo)

    def complete(self, ticket: Ticket) -> None:
        """Record that a device has finished with `ticket`, and wake the engine, which calls `settle`. Thread-safe."""
        self._completed.append(ticket)
        self._wake()

    def settle(self) -> list[Ticket]:
        """Return the completed tickets in order of completion; items in limbo for them go back to their pools."""
        done = []
        while self._completed:
            done.append(self._completed.popleft())
        if done and self._limbo:
            waiting, self._limbo = self._limbo, []
            for entry in waiting:
                self.defer(entry)
        return done

    def note(self, owner: str, t_ns: int, text: str) -> None:
        """Add one line to `owner`'s history. The last eight lines are kept; an audit shows them beside a leak."""
        events = self._events.get(owner)
        if events is None:
            self._events[owner] = [(t_ns, text)]
            return
        events.append((t_ns, text))
        if len(events) > _EVENTS_KEPT:
            del events[0]

    def forget(self, owner: str) -> None:
        """Record that `owner` has ended. Its history stays while it holds items, which are a leak, and then among those
        of the owners that ended last."""
        for owners in self._held.values():
            if owner in owners:
                return
        if (events := self._events.pop(owner, None)) is not None:
            self._ended[owner] = events
            if len(self._ended) > _ENDED_KEPT:
                del self._ended[next(iter(self._ended))]

    def last_owner(self, pool: str, item: int) -> str:
        """Return who acquired `item` of `pool` last; "" when nobody ever did."""
        return self._last_owner[pool].get(item, "")

    def history(self, owner: str) -> str:
        """Return the last lines of `owner`'s history, oldest first."""
        events = self._events.get(owner, self._ended.get(owner, []))
        return "; ".join(f"{t_ns / 1e9:.3f}s {text}" for t_ns, text in events)

    def held(self, pool: str, owner: str) -> list[int]:
        """Return a copy of the items of `pool` that `owner` holds."""
        return list(self._held[pool].get(owner, ()))

    def live(self, pool: str) -> int:
        """Return how many items of `pool` have an owner."""
        return len(self._live[pool])

    def holders(self, pool: str) -> Mapping[int, int]:
        """Return the number of owners of each item of `pool`. Items without an owner are left out."""
        return Holders(self._live[pool], self._extra_owners[pool])

    def has_shared(self, pool: str) -> bool:
        """Return whether any item of `pool` has more than one owner."""
        return bool(self._extra_owners[pool])

    def in_limbo(self, pool: str) -> int:
        """Return how many items of `pool` wait for a ticket and have no owner."""
        if not self._limbo:
            return 0
        waiting = {item for entry in self._limbo if entry.pool == pool for item in entry.items}
        return len(waiting - self._live[pool])

    def limbo(self) -> tuple[Limbo, ...]:
        """Return all entries that wait for a ticket, oldest first."""
        return tuple(self._limbo)

    def leaked(self, pool: str, alive: Collection[str]) -> int:
        """Return how many items of `pool` are held by owners that are not in `alive`."""
        return sum(len(items) for owner, items in self._held[pool].items() if owner not in alive)

    def outstanding(self) -> Iterator[tuple[str, str, int]]:
        """Yield (pool, owner, number of items) for every holding, in order of first acquisition."""
        for pool, owners in self._held.items():
            for owner, items in owners.items():
                yield pool, owner, len(items)


class Holders(Mapping[int, int]):
    """Number of owners of each item of a pool that has one: a view, not a copy."""

    def __init__(self, live: set[int], extra: dict[int, int]) -> None:
        self._live, self._extra_owners = live, extra

    def __getitem__(self, item: int) -> int:
        if item not in self._live:
            raise KeyError(item)
        return 1 + self._extra_owners.get(item, 0)

    def __contains__(self, item: object) -> bool:
        return item in self._live

    def __iter__(self) -> Iterator[int]:
        return iter(self._live)

    def __len__(self) -> int:
        return len(self._live)


def _drop_owner(extra: dict[int, int], item: int) -> bool:
    """Count one owner of `item` less, and return True. Return False when it has a single owner."""
    if item not in extra:
        return False
    if extra[item] == 1:
        del extra[item]
    else:
        extra[item] -= 1
    return True
