"""How much memory the device has left. On a CPU: what the kernel would give, and no more than our cgroup may take.

Who asks: the sizing of KV when `kv_blocks` is 0, and the maintenance (memory/maintenance.py) once a second.
"""

from pathlib import Path

from faults.actions import lie
from faults.points import Kind, Point
from runtime.core.env import Env

DEVICE_MEM_INFO = Point(
    name="device.mem_info",
    layer="device",
    breaks="the device says that so many MiB are free, whatever there is; memory itself and what is held are untouched",
    actions=(lie(argument="number", symptom="mark:memory.pressure"),),
)

POINTS = (DEVICE_MEM_INFO,)

_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")


class MemInfo:
    """Of one Env. `meminfo` and `cgroup` are the kernel's files."""

    def __init__(self, env: Env, meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> None:
        self._env, self._meminfo, self._cgroup = env, meminfo, cgroup

    def free_bytes(self) -> int | None:
        """None where nobody can say."""
        faults = self._env.faults
        if faults.armed:
            effect = faults.fire(DEVICE_MEM_INFO)
            if effect is not None and effect.kind is Kind.LIE:
                return int(effect.number * (1 << 20))
        known = [size for size in (self._available(), self._allowed()) if size is not None]
        return min(known, default=None)

    def _available(self) -> int | None:
        try:
            lines = self._meminfo.read_text().splitlines()
        except OSError:
            return None
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)

    def _allowed(self) -> int | None:
        """What the cgroup leaves us, with the page cache that it would give up first."""
        try:
            most = (self._cgroup / "memory.max").read_text().strip()
            if most == "max":
                return None
            stat = dict(line.split() for line in (self._cgroup / "memory.stat").read_text().splitlines())
            taken = int((self._cgroup / "memory.current").read_text()) - int(stat.get("inactive_file", 0))
            return int(most) - taken
        except (OSError, ValueError):
            return None
