"""Reads one process from /proc: memory by kind, descriptors, threads, CPU time.

Resident memory is split by kind because the sum hides leaks: file pages come and go with the page cache, and under
pressure anonymous pages move to swap.
"""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessReading:
    """One reading of a process. `cpu_ns` counts since its start; `started` distinguishes a reused pid."""

    started: int
    rss_anon_bytes: int
    rss_file_bytes: int
    rss_shmem_bytes: int
    swap_bytes: int
    threads: int
    fds: int | None  # None for another user's process
    cpu_ns: int


def read_process(pid: int, root: Path = Path("/proc"), ticks_per_s: int | None = None) -> ProcessReading | None:
    """Read a process; None when it does not exist or is a zombie, which holds no memory."""
    try:
        status = _status(root / str(pid) / "status")
        # The name in parentheses may contain spaces and parentheses, so fields are counted from its end.
        fields = (root / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in ("Z", "X") or "RssAnon" not in status:
        return None
    ticks = ticks_per_s or os.sysconf("SC_CLK_TCK")
    return ProcessReading(
        started=int(fields[19]),
        rss_anon_bytes=status["RssAnon"],
        rss_file_bytes=status["RssFile"],
        rss_shmem_bytes=status["RssShmem"],
        swap_bytes=status["VmSwap"],
        threads=int(fields[17]),
        fds=_count(root / str(pid) / "fd"),
        cpu_ns=(int(fields[11]) + int(fields[12])) * 1_000_000_000 // ticks,
    )


def _status(path: Path) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for row in path.read_text().splitlines():
        name, _, value = row.partition(":")
        if name in ("RssAnon", "RssFile", "RssShmem", "VmSwap"):
            sizes[name] = int(value.split()[0]) * 1024
    return sizes


def _count(path: Path) -> int | None:
    try:
        return len(os.listdir(path))
    except (PermissionError, FileNotFoundError):
        return None
