"""The facts of table meta that do not change during a run: versions, machine, limits, environment."""

import os
import platform
import socket
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.plan.plan import Plan

PACKAGES = ("torch", "locust", "gevent", "requests", "numpy", "scipy", "starlette", "uvicorn", "pydantic")
MALLOC = ("MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "LD_PRELOAD")


def environment(plan: Plan) -> dict[str, str]:
    """Return the facts as text by key. A fact that this machine does not have is left out."""
    found = {
        "run_id": plan.run_id,
        "seatrial": plan.provenance.seatrial,
        "commit": plan.provenance.commit or "",
        "dirty": str(int(plan.provenance.dirty)),
        "seed": str(plan.scenario.seed),
        "scenario": plan.scenario.name,
        "drive": plan.scenario.drive,
        "capabilities": ",".join(plan.capabilities),
        "python": sys.version.split()[0],
        "kernel": platform.release(),
        "host": socket.gethostname(),
        "host_class": host_class(),
        "cpu": cpu(),
        "memory_bytes": str(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
    }
    found |= {f"version.{name}": number for name in PACKAGES if (number := _version(name))}
    found |= {f"env.{name}": os.environ[name] for name in MALLOC if name in os.environ}
    found |= {f"cgroup.{name}": text for name in ("cpu.max", "memory.max") if (text := _cgroup(name))}
    return found


def host_class() -> str:
    """The architecture and the number of usable cores."""
    return f"{platform.machine()}-{len(os.sched_getaffinity(0))}c"


def cpu() -> str:
    """The model name of the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cgroup(name: str) -> str | None:
    """The content of a cgroup v2 file; None on other machines."""
    path = Path("/sys/fs/cgroup") / name
    return path.read_text().strip() if path.is_file() else None
