"""Sensors of the host: stolen CPU time, pressure, throttling, free disk.

Each function returns a number, or raises SensorAbsent with the reason why this machine lacks the sensor.
"""

import os
from pathlib import Path


class SensorAbsent(LookupError):
    """This machine lacks the sensor. The text is the reason and is stored in `series.absent`."""


def steal_ns(root: Path = Path("/"), ticks_per_s: int | None = None) -> int:
    """CPU time (ns) since boot that the hypervisor gave to others, summed over CPUs."""
    fields = _read(root / "proc/stat").splitlines()[0].split()
    if len(fields) < 9:
        raise SensorAbsent("/proc/stat has no steal column")
    return int(fields[8]) * 1_000_000_000 // (ticks_per_s or os.sysconf("SC_CLK_TCK"))


def cpu_pressure_ns(root: Path = Path("/")) -> int:
    """Time (ns) since boot in which at least one task waited for a CPU."""
    for row in _read(root / "proc/pressure/cpu").splitlines():
        if row.startswith("some "):
            return int(row.rpartition("total=")[2]) * 1000
    raise SensorAbsent("/proc/pressure/cpu has no line 'some'")


def throttled_ns(root: Path = Path("/")) -> int:
    """Time (ns) in which the CPU quota stopped our cgroup (version 2, else version 1)."""
    for path, field, unit_ns in _cpu_stats(root):
        try:
            rows = path.read_text().splitlines()
        except OSError:
            continue
        for row in rows:
            name, _, value = row.partition(" ")
            if name == field:
                return int(value) * unit_ns
    raise SensorAbsent("no cpu.stat with a throttling counter in our cgroup (no CPU quota is set, or no controller)")


def disk_free_bytes(path: Path) -> int:
    """The free bytes on the file system of `path`."""
    state = os.statvfs(path)
    return state.f_bavail * state.f_frsize


def _cpu_stats(root: Path) -> list[tuple[Path, str, int]]:
    """Candidate files (path, field, ns per unit), our cgroup before the root cgroup."""
    found: list[tuple[Path, str, int]] = []
    mount = root / "sys/fs/cgroup"
    for row in _read(root / "proc/self/cgroup").splitlines():
        hierarchy, controllers, path = row.split(":", 2)
        if hierarchy == "0" and not controllers:
            found += [(mount / path.lstrip("/") / "cpu.stat", "throttled_usec", 1000)]
        elif "cpu" in controllers.split(","):
            found += [(mount / "cpu" / path.lstrip("/") / "cpu.stat", "throttled_time", 1)]
            found += [(mount / "cpu" / "cpu.stat", "throttled_time", 1)]
    return [*found, (mount / "cpu.stat", "throttled_usec", 1000)]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise SensorAbsent(f"cannot read {path}: {os.strerror(error.errno or 0)}") from error
