"""One process as /proc shows it: memory by kind, descriptors, threads, CPU. A process that is gone is None.

Resident memory is split, because their sum hides things: a leak may sit in anonymous pages only, while file pages
come and go with the page cache, and under pressure it moves to swap.
"""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessReading:
    """Bytes, counts, and CPU time used since the process's start in ns. `started` tells a reused pid apart."""

    started: int
    rss_anon_bytes: int
    rss_file_bytes: int
    rss_shmem_bytes: int
    swap_bytes: int
    threads: int
    fds: int | None  # None: not ours to count (another user's process)
    cpu_ns: int


def read_process(pid: int, root: Path = Path("/proc"), ticks_per_s: int | None = None) -> ProcessReading | None:
    """What /proc says now, or None when there is no such process (also a zombie: it holds nothing any more)."""
    try:
        status = _status(root / str(pid) / "status")
        # The name in parentheses may hold spaces and parentheses itself; fields are counted from its end.
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
