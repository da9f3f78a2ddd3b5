"""Compares three clocks, so that a stepped wall clock or a suspended machine is detected.

monotonic   the clock of all recorded times; it stops in suspend
boot        like monotonic, but it runs in suspend: boot - monotonic grows by the time suspended
real        the wall clock, which may be set: real - monotonic steps
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

STEP_NS_MIN = 20_000_000  # the smallest step; slewing is at most 500 ppm, 5 ms in 10 s
SLEW_PPM_MAX = 1000


@dataclass(frozen=True)
class ClockReading:
    """One reading of the three clocks. `err_ns` is half of its duration, which bounds their accuracy."""

    mono_ns: int
    real_ns: int
    boot_ns: int
    err_ns: int


@dataclass(frozen=True)
class ClockStep:
    """A step of a clock against the monotonic one. `clock` is "real" or "boot", `by_ns` is signed."""

    clock: str
    by_ns: int


def read_clocks(
    mono_ns: Callable[[], int] = time.monotonic_ns,
    real_ns: Callable[[], int] = time.time_ns,
    boot_ns: Callable[[], int] = lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME),
) -> ClockReading:
    """Read all three between two readings of the monotonic clock."""
    before, real, boot, after = mono_ns(), real_ns(), boot_ns(), mono_ns()
    return ClockReading((before + after) // 2, real, boot, (after - before + 1) // 2)


def clock_steps(earlier: ClockReading, later: ClockReading) -> list[ClockStep]:
    """The steps between two readings that slewing and reading errors do not explain."""
    elapsed_ns = later.mono_ns - earlier.mono_ns
    noise_ns = STEP_NS_MIN + earlier.err_ns + later.err_ns + elapsed_ns * SLEW_PPM_MAX // 1_000_000
    moved = {
        "real": (later.real_ns - later.mono_ns) - (earlier.real_ns - earlier.mono_ns),
        "boot": (later.boot_ns - later.mono_ns) - (earlier.boot_ns - earlier.mono_ns),
    }
    return [ClockStep(clock, by_ns) for clock, by_ns in moved.items() if abs(by_ns) > noise_ns]
