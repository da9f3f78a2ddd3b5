"""Our three clocks side by side, so that a stepped wall clock or a suspended machine is seen and not guessed.

monotonic   everything is stamped with it      stands still in suspend
boot        as monotonic, but goes on in suspend: boot - mono grows by the time slept
real        the wall clock; someone may set it: real - mono steps
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

STEP_NS_MIN = 20_000_000  # what a step must be at least; slewing is at most 500 ppm, 5 ms in our 10 s
SLEW_PPM_MAX = 1000


@dataclass(frozen=True)
class ClockReading:
    """One reading. `err_ns` is half the time that the reading took: the three are no closer than that."""

    mono_ns: int
    real_ns: int
    boot_ns: int
    err_ns: int


@dataclass(frozen=True)
class ClockStep:
    """A clock moved against the monotonic one: `clock` is "real" or "boot", `by_ns` how far (signed)."""

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
    """Steps between two readings, larger than slewing and reading error can explain."""
    elapsed_ns = later.mono_ns - earlier.mono_ns
    noise_ns = STEP_NS_MIN + earlier.err_ns + later.err_ns + elapsed_ns * SLEW_PPM_MAX // 1_000_000
    moved = {
        "real": (later.real_ns - later.mono_ns) - (earlier.real_ns - earlier.mono_ns),
        "boot": (later.boot_ns - later.mono_ns) - (earlier.boot_ns - earlier.mono_ns),
    }
    return [ClockStep(clock, by_ns) for clock, by_ns in moved.items() if abs(by_ns) > noise_ns]
