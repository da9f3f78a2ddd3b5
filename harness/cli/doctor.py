"""`seatrial doctor`: can this machine run a trial, and what will be missing from its evidence."""

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
    NOTE = "note"  # works; something of the evidence will be missing or weaker
    BAD = "bad"  # no trial here before it is mended


@dataclass(frozen=True)
class Finding:
    name: str
    health: Health
    text: str


def examine(runs_dir: Path) -> list[Finding]:
    """All findings, quick ones first. Loads torch and Locust in children: they must not meet in one process."""
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
        _heard("torch", torch, "version, threads, CUDA:"),
        _heard("locust", locust, "version"),
    ]


def show(findings: list[Finding]) -> int:
    for found in findings:
        print(f"{found.health:<5} {found.name:<9} {terminal(one_line(found.text))}")
    bad = sum(found.health is Health.BAD for found in findings)
    print("this machine can run a trial" if not bad else f"{bad} to mend before a trial can run here")
    return Exit.OURS if bad else Exit.PASS


def _python() -> Finding:
    version = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {sys.executable}"
    return Finding("python", Health.OK if sys.version_info >= (3, 11) else Health.BAD, version)


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = f"{cores} for us; the server takes all but one, which the load generator needs"
    return Finding("cores", Health.OK if cores >= 2 else Health.NOTE, text if cores >= 2 else f"{text}: timing suffers")


def _memory() -> Finding:
    import psutil

    memory = psutil.virtual_memory()
    text = f"{size(memory.available)} free of {size(memory.total)}, swap in use {size(psutil.swap_memory().used)}"
    return Finding("memory", Health.OK if memory.available >= MEMORY_MIN_BYTES else Health.NOTE, text)


def _cgroup(root: Path) -> Finding:
    """Limits of our own control group, version 2 or 1; a limit that is not there is no limit."""
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
    return Finding("cgroup", Health.OK, ", ".join(limits) or "no limit seen")


def _disk(runs_dir: Path) -> Finding:
    place = runs_dir.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    text = f"{size(free)} free for {runs_dir}"
    if not os.access(place, os.W_OK):
        return Finding("disk", Health.BAD, f"{place} can't be written; give --runs-dir")
    if free < DISK_MIN_BYTES:
        return Finding("disk", Health.NOTE, f"{text}; a run may use {size(DISK_MIN_BYTES)} (limits.disk)")
    return Finding("disk", Health.OK, text)


def _sqlite() -> Finding:
    return Finding(
        "sqlite", Health.OK if sqlite3.sqlite_version_info >= (3, 35) else Health.BAD, sqlite3.sqlite_version
    )


def clock(wall_s: Callable[[], float], steady_s: Callable[[], float], sleep: Callable[[float], None]) -> Finding:
    """Does the wall clock step against the monotonic one? A run records steps; here it is a warning."""
    before = wall_s() - steady_s()
    sleep(CLOCK_WINDOW_S)
    step_s = abs(wall_s() - steady_s() - before)
    text = f"wall and monotonic parted by {seconds(step_s)} in {seconds(CLOCK_WINDOW_S)}"
    return Finding("clock", Health.OK if step_s <= CLOCK_STEP_MAX_S else Health.NOTE, text)


def _malloc(environment: "os._Environ[str] | dict[str, str]") -> Finding:
    found = [f"{name}={environment[name]}" for name in MALLOC_NAMES if environment.get(name)]
    text = ", ".join(found) or f"none of {', '.join(MALLOC_NAMES)} set; memory goes back to the system late"
    return Finding("malloc", Health.OK if found else Health.NOTE, text)


def _gpu() -> Finding:
    """NVML being absent is no fault: the built-in runtime runs on the CPU."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            names = [pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(index)) for index in _indices(pynvml)]
        finally:
            pynvml.nvmlShutdown()
    except ImportError:
        return Finding("gpu", Health.NOTE, "nvidia-ml-py is not installed: no GPU sensors")
    except pynvml.NVMLError as problem:
        return Finding("gpu", Health.OK, f"none seen ({problem}); the built-in runtime uses the CPU")
    return Finding("gpu", Health.OK, ", ".join(str(name) for name in names) or "NVML without a device")


def _indices(nvml: "object") -> range:
    return range(nvml.nvmlDeviceGetCount())  # type: ignore[attr-defined]


def _child(code: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="backslashreplace",
    )


def _heard(package: str, child: "subprocess.Popen[str]", what: str) -> Finding:
    """The result of a child that imports a package; the last line of its error when the import fails."""
    try:
        said, complaint = child.communicate(timeout=CHILD_MAX_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return Finding(package, Health.BAD, f"importing it took more than {CHILD_MAX_S:.0f} s")
    if child.returncode == 0:
        return Finding(package, Health.OK, f"{what} {said.strip()}")
    last = (complaint.strip().splitlines() or [f"exit {child.returncode}"])[-1]
    return Finding(package, Health.BAD, f"{_installed(package)}: {last}")


def _installed(package: str) -> str:
    try:
        return f"{importlib.metadata.version(package)} is installed and can't be imported"
    except importlib.metadata.PackageNotFoundError:
        return "is not installed"
