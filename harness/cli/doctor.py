"""`seatrial doctor`: check that this machine can run a trial, and list the evidence that a trial would lack."""

import importlib.metadata
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness.exits import Exit
from harness.report.figures import seconds, size
from harness.report.sanitise import one_line, terminal

DISK_MIN_BYTES = 4 * 2**30  # limits.disk by default
MEMORY_MIN_BYTES = 2 * 2**30  # torch, a small model, and Locust beside it
CHILD_MAX_S = 60.0
CLOCK_WINDOW_S = 0.2
CLOCK_STEP_MAX_S = 0.005
MALLOC_NAMES = ("MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "MALLOC_CONF", "LD_PRELOAD")


class Health(StrEnum):
    OK = "ok"
    NOTE = "note"  # a trial can run; some evidence is missing or weaker
    BAD = "bad"  # no trial can run until this is repaired


@dataclass(frozen=True)
class HealthCheck:
    name: str
    health: Health
    text: str


def examine(runs_dir: Path) -> list[HealthCheck]:
    """Run all checks. Torch and Locust are imported in child processes: gevent's patches must not reach torch."""
    torch = _child("import torch; print(torch.__version__, torch.get_num_threads(), torch.cuda.is_available())")
    locust = _child("import locust; print(locust.__version__)")
    return [
        _python(),
        _cores(),
        _memory(),
        _cgroup(Path("/")),
        _disk(runs_dir),
        _sqlite(),
        clock(time.time, time.monotonic, time.sleep),
        _malloc(os.environ),
        _gpu(),
        _import_check("torch", torch, "version, threads, CUDA:"),
        _import_check("locust", locust, "version"),
    ]


def show(findings: list[HealthCheck]) -> int:
    for found in findings:
        print(f"{found.health:<5} {found.name:<9} {terminal(one_line(found.text))}")
    bad = sum(found.health is Health.BAD for found in findings)
    failed = "1 check" if bad == 1 else f"{bad} checks"
    print("this machine can run a trial" if not bad else f"this machine can't run a trial: {failed} failed")
    return Exit.OURS if bad else Exit.PASS


def _python() -> HealthCheck:
    version = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {sys.executable}"
    return HealthCheck("python", Health.OK if sys.version_info >= (3, 11) else Health.BAD, version)


def _cores() -> HealthCheck:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = f"{cores} usable; the load generator needs one, the server uses the others"
    if cores >= 2:
        return HealthCheck("cores", Health.OK, text)
    return HealthCheck("cores", Health.NOTE, f"{text}: both share one core, so latencies are less accurate")


def _memory() -> HealthCheck:
    import psutil

    memory = psutil.virtual_memory()
    text = f"{size(memory.available)} free of {size(memory.total)}, swap in use {size(psutil.swap_memory().used)}"
    return HealthCheck("memory", Health.OK if memory.available >= MEMORY_MIN_BYTES else Health.NOTE, text)


def _cgroup(root: Path) -> HealthCheck:
    """Memory and CPU limits of this process's control group, version 2 or 1."""
    places = (
        ("memory", root / "sys/fs/cgroup/memory.max"),
        ("memory", root / "sys/fs/cgroup/memory/memory.limit_in_bytes"),
        ("cpu", root / "sys/fs/cgroup/cpu.max"),
        ("cpu", root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
    )
    limits = []
    for name, path in places:
        try:
            value = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
        unlimited = value.startswith(("max", "-1")) or (name == "memory" and int(value) >= 2**60)
        if not unlimited:
            limits.append(f"{name} {size(float(value)) if name == 'memory' else value}")
    return HealthCheck("cgroup", Health.OK, ", ".join(limits) or "no limit seen")


def _disk(runs_dir: Path) -> HealthCheck:
    place = runs_dir.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    text = f"{size(free)} free for {runs_dir}"
    if not os.access(place, os.W_OK):
        return HealthCheck("disk", Health.BAD, f"{place} can't be written; give --runs-dir")
    if free < DISK_MIN_BYTES:
        return HealthCheck("disk", Health.NOTE, f"{text}; a run may use {size(DISK_MIN_BYTES)} (limits.disk)")
    return HealthCheck("disk", Health.OK, text)


def _sqlite() -> HealthCheck:
    return HealthCheck(
        "sqlite", Health.OK if sqlite3.sqlite_version_info >= (3, 35) else Health.BAD, sqlite3.sqlite_version
    )


def clock(wall_s: Callable[[], float], steady_s: Callable[[], float], sleep: Callable[[float], None]) -> HealthCheck:
    """Compare the wall clock with the monotonic clock. A step during a run is recorded; here it is a note."""
    before = wall_s() - steady_s()
    sleep(CLOCK_WINDOW_S)
    step_s = abs(wall_s() - steady_s() - before)
    text = f"wall and monotonic clock differ by {seconds(step_s)} after {seconds(CLOCK_WINDOW_S)}"
    return HealthCheck("clock", Health.OK if step_s <= CLOCK_STEP_MAX_S else Health.NOTE, text)


def _malloc(environment: "os._Environ[str] | dict[str, str]") -> HealthCheck:
    found = [f"{name}={environment[name]}" for name in MALLOC_NAMES if environment.get(name)]
    text = ", ".join(found) or f"none of {', '.join(MALLOC_NAMES)} is set; freed memory returns to the system late"
    return HealthCheck("malloc", Health.OK if found else Health.NOTE, text)


def _gpu() -> HealthCheck:
    """List the GPUs. A machine without NVML is healthy, because the built-in runtime runs on the CPU."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
            names = [pynvml.nvmlDeviceGetName(handle) for handle in handles]
        finally:
            pynvml.nvmlShutdown()
    except ImportError:
        return HealthCheck("gpu", Health.NOTE, "nvidia-ml-py is not installed: no GPU sensors")
    except pynvml.NVMLError as problem:
        return HealthCheck("gpu", Health.OK, f"none seen ({problem}); the built-in runtime uses the CPU")
    return HealthCheck("gpu", Health.OK, ", ".join(str(name) for name in names) or "NVML without a device")


def _child(code: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="backslashreplace",
    )


def _import_check(package: str, child: "subprocess.Popen[str]", label: str) -> HealthCheck:
    """Wait for a child that imports a package. When the import fails, the text ends with its last error line."""
    try:
        output, error_text = child.communicate(timeout=CHILD_MAX_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return HealthCheck(package, Health.BAD, f"importing it took more than {CHILD_MAX_S:.0f} s")
    if child.returncode == 0:
        return HealthCheck(package, Health.OK, f"{label} {output.strip()}")
    last = (error_text.strip().splitlines() or [f"exit {child.returncode}"])[-1]
    return HealthCheck(package, Health.BAD, f"{_installed(package)}: {last}")


def _installed(package: str) -> str:
    try:
        return f"{importlib.metadata.version(package)} is installed and can't be imported"
    except importlib.metadata.PackageNotFoundError:
        return "is not installed"
