"""The free memory of the device. On a CPU it is the kernel's available memory, limited by that of the process's cgroup.

It sizes the KV when `kv_blocks` is 0, and memory maintenance (memory/maintenance.py) reads it once a second.
"""

from pathlib import Path

from faults.actions import lie
from faults.points import Kind, Point
from runtime.core.env import Env

DEVICE_MEM_INFO = Point(
    name="device.mem_info",
    layer="device",
    breaks="the device reports a wrong number of free MiB; memory and allocations are untouched",
    actions=(lie(argument="number", symptom="mark:memory.pressure"),),
)

POINTS = (DEVICE_MEM_INFO,)

_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")


class MemInfo:
    """Reads free memory for one Env. `meminfo` and `cgroup` are the paths of the kernel's files."""

    def __init__(self, env: Env, meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> None:
        self._env, self._meminfo, self._cgroup = env, meminfo, cgroup

    def free_bytes(self) -> int | None:
        """Return the free bytes, or None when the system does not report them."""
        faults = self._env.faults
        if faults.armed:
            effect = faults.fire(DEVICE_MEM_INFO)
            if effect is not None and effect.kind is Kind.LIE:
                return int(effect.number * (1 << 20))
        known = [size for size in (self._kernel_bytes(), self._cgroup_bytes()) if size is not None]
        return min(known, default=None)

    def _kernel_bytes(self) -> int | None:
        try:
            lines = self._meminfo.read_text().splitlines()
        except OSError:
            return None
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)

    def _cgroup_bytes(self) -> int | None:
        """Return the bytes left in the cgroup; inactive page cache counts as free. None without a limit."""
        try:
            most = (self._cgroup / "memory.max").read_text().strip()
            if most == "max":
                return None
            stat = dict(line.split() for line in (self._cgroup / "memory.stat").read_text().splitlines())
            taken = int((self._cgroup / "memory.current").read_text()) - int(stat.get("inactive_file", 0))
            return int(most) - taken
        except (OSError, ValueError):
            return None
