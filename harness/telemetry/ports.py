"""The ports of a sampler (system, recorder), and the state that it keeps between samples."""

import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.telemetry.clocks import ClockReading, read_clocks
from harness.telemetry.metrics import fetch
from harness.telemetry.proc import ProcessReading, read_tree

CHILDREN_MAX = 16
"""Names of children of one watched process that have series of their own; further ones are in the sum only."""


class Sink(Protocol):
    """The part of the recorder that a sampler needs. Times are raw CLOCK_MONOTONIC ns."""

    def series(
        self, name: str, unit: str, kind: str, source: str, period_ns: int | None, absent: str | None = None
    ) -> int: ...
    def absent(self, name: str, reason: str | None) -> None: ...
    def sample(self, series: int, t_ns: int, value: float) -> None: ...
    def event(self, t_ns: int, proc: str, kind: str, value: float | None = None, detail: str | None = None) -> None: ...
    def clock(self, t_ns: int, real_ns: int, boot_ns: int, proc: str, offset_ns: int, err_ns: int) -> None: ...


@dataclass(frozen=True)
class SamplerPorts:
    """Access to clock, processes and network; tests replace it."""

    clock_ns: Callable[[], int] = time.monotonic_ns
    sleep: Callable[[float], None] = time.sleep
    read_tree: Callable[[int], Sequence[ProcessReading]] = read_tree
    fetch: Callable[[str, float], str] = fetch
    clocks: Callable[[], ClockReading] = read_clocks
    root: Path = Path("/")


@dataclass
class CounterRate:
    """The rate of a counter: its last value (ns) and the time of reading (ns)."""

    at_ns: int = 0
    value_ns: int = 0
    seen: bool = False

    def step(self, now_ns: int, value_ns: int) -> float | None:
        """The growth per elapsed time since the last call; None on the first call."""
        elapsed_ns = now_ns - self.at_ns
        grown = (value_ns - self.value_ns) / elapsed_ns if self.seen and elapsed_ns > 0 else None
        self.at_ns, self.value_ns, self.seen = now_ns, value_ns, True
        return grown


@dataclass
class WatchedProcess:
    """A watched process and its descendants. `started` is set by the first reading."""

    pid: int
    started: int | None = None
    at_ns: int = 0
    cpu_ns: dict[tuple[int, int], int] = field(default_factory=dict)
    """CPU time at the last reading, by pid and start of each process of the tree."""

    child_names: dict[tuple[int, int], str] = field(default_factory=dict)
    """The name of each living child, by pid and start."""
    names_used: set[str] = field(default_factory=set)

    def name_children(self, children: Sequence[ProcessReading]) -> list[str | None]:
        """A name for each child as long as it lives: its own, with a number where several share one. None: one of more
        than CHILDREN_MAX names."""
        keys = [(each.pid, each.started) for each in children]
        self.child_names = {key: name for key, name in self.child_names.items() if key in keys}
        taken = set(self.child_names.values())
        for key, child in zip(keys, children, strict=True):
            if key not in self.child_names:
                base = re.sub(r"[^\w.:-]", "_", child.name) or "unnamed"
                name = next(each for each in _numbered(base) if each not in taken)
                if name in self.names_used or len(self.names_used) < CHILDREN_MAX:
                    self.child_names[key] = name
                    self.names_used.add(name)
                    taken.add(name)
        return [self.child_names.get(key) for key in keys]

    def cores(self, now_ns: int, tree: Sequence[ProcessReading]) -> float | None:
        """The cores that the tree used since the last reading; None at the first. A new child counts from its start."""
        seen = {(each.pid, each.started): each.cpu_ns for each in tree}
        used_ns = sum(value - self.cpu_ns.get(key, 0) for key, value in seen.items())
        elapsed_ns, first = now_ns - self.at_ns, not self.cpu_ns
        self.at_ns, self.cpu_ns = now_ns, seen
        return None if first or elapsed_ns <= 0 else used_ns / elapsed_ns


def _numbered(base: str) -> Iterator[str]:
    yield base
    for number in itertools.count(2):
        yield f"{base}#{number}"
