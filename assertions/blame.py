"""Blame: the fault that a FAIL names, with the recorded link from the fault to what broke, or NO_FAULT.

A fault reaches a request by one of these links; the first that holds is named, and of several faults the last to fire.

    hit         a fire names the request
    block       a fire names a request that held a block which the request held later, or the request read cached blocks
                that a request hit before may have written
    in flight   a fire names no request, and the request was in flight (in the group of the fire)
    active      the fault was active, first fire to heal, while the request lived; enough for waiting, refusals and
                holdings, where requests affect each other, and not for wrong values

What no request owns (a growing series, the exit of a process) is reached by a fault whose window holds its begin.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from assertions.history import History
from assertions.windows import SLACK_NS, FaultWindow

NO_FAULT = "no fault involved"
_WORD, _BLOCK = re.compile(r"[\w.-]+"), re.compile(r"\bblock (\d+)\b")


@dataclass(frozen=True)
class Blame:
    """Reads the links between the faults that fired and the requests of one history."""

    history: History
    windows: tuple[FaultWindow, ...]
    client_of: dict[str, str]

    def of_request(self, request: str | None, t_ns: float, *, values: bool = False) -> str | None:
        """Name the fault that reached `request` by `t_ns` (ns), when the breach was seen; None when no fault fired.

        `values` is for wrong tokens and wrong KV, which an active fault alone does not explain.
        """
        name = self.client_of.get(request or "", request or "")
        row = self.history.requests.row_of.get(name)
        if row is None:
            return self.at(t_ns)
        start_ns, end_ns = self.history.requests.start_of(row), float(self.history.requests.end_ns[row])
        seen_ns = float(np.fmax(t_ns, end_ns))
        links = [self._hit, self._block, self._in_flight] + ([] if values else [self._active])
        for link in links:
            found = [
                (fire_ns, f"{window.name}, {words}")
                for window in self.windows
                for fire_ns, words in link(window, name, start_ns, seen_ns)
                if fire_ns <= seen_ns
            ]
            if found:
                return max(found)[1]
        return NO_FAULT if self.windows else None

    def at(self, t_ns: float, since_ns: float | None = None) -> str | None:
        """Name the last fault whose window holds the moment `t_ns`, or a part of `since_ns` to `t_ns`."""
        from_ns = t_ns if since_ns is None else since_ns
        near = [w for w in self.windows if w.first_ns <= t_ns and w.end_ns + SLACK_NS >= from_ns]
        last = max(near, key=lambda window: window.first_ns, default=None)
        return last.name if last is not None else NO_FAULT if self.windows else None

    def _hit(self, window: FaultWindow, name: str, start_ns: float, seen_ns: float) -> Iterator[tuple[float, str]]:
        for fire in window.fires:
            if name in self._clients(fire.requests):
                yield fire.t_ns, f"which hit {name}"

    def _block(self, window: FaultWindow, name: str, start_ns: float, seen_ns: float) -> Iterator[tuple[float, str]]:
        for fire in window.fires:
            for other in self._clients(fire.requests):
                shared = self._blocks_of.get(other, frozenset()) & self._blocks_of.get(name, frozenset())
                if shared:
                    yield fire.t_ns, f"which hit {other}; both held block {min(shared)}"
                elif name in self._readers:
                    yield fire.t_ns, f"which hit {other}; {name} read cached blocks"

    def _in_flight(
        self, window: FaultWindow, name: str, start_ns: float, seen_ns: float
    ) -> Iterator[tuple[float, str]]:
        requests = self.history.requests
        for fire in window.fires:
            mine = fire.group is None or requests.group[requests.row_of[name]] in (fire.group, None)
            if not fire.requests and start_ns <= fire.t_ns <= seen_ns and mine:
                yield fire.t_ns, f"which fired while {name} was in flight"

    def _active(self, window: FaultWindow, name: str, start_ns: float, seen_ns: float) -> Iterator[tuple[float, str]]:
        until_ns = window.end_ns if window.heal_ns is None else window.heal_ns
        if window.first_ns <= seen_ns and until_ns >= start_ns:
            yield window.first_ns, f"which was active while {name} was in flight"

    def _clients(self, names: Iterable[str]) -> list[str]:
        return [self.client_of.get(name, name) for name in names]

    @cached_property
    def _readers(self) -> frozenset[str]:
        """Requests whose prompt began with blocks of the prefix cache."""
        served = self.history.served()
        return frozenset(row.request for row in served if row.request is not None and (row.tokens_cached or 0) > 0)

    @cached_property
    def _blocks_of(self) -> dict[str, frozenset[int]]:
        """The KV blocks that the events of broken invariants name for each request."""
        found: dict[str, set[int]] = {}
        for event in self.history.events:
            if event.kind == "invariant" and (blocks := {int(n) for n in _BLOCK.findall(event.detail)}):
                for word in _WORD.findall(event.detail):
                    if word in self.client_of:
                        found.setdefault(self.client_of[word], set()).update(blocks)
        return {name: frozenset(blocks) for name, blocks in found.items()}
