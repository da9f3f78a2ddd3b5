"""The ports of a sampler (system, recorder), and the state that it keeps between samples."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.telemetry.clocks import ClockReading, read_clocks
from harness.telemetry.metrics import fetch
from harness.telemetry.proc import ProcessReading, read_process


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
    read_process: Callable[[int], ProcessReading | None] = read_process
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
    """A watched process. `started` is set by the first reading."""

    pid: int
    started: int | None = None
    cpu: CounterRate = field(default_factory=CounterRate)
