"""Reads a process and its descendants from /proc: memory by kind, open files, threads, CPU time.

Resident memory is split by kind because the sum hides leaks: file pages come and go with the page cache, and under
pressure anonymous pages move to swap. Servers hold weights and KV in children, so a process is read with its tree.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.telemetry.open_files import OpenFiles, read_open_files


@dataclass(frozen=True)
class ProcessReading:
    """One reading of a process. `cpu_ns` counts since its start; `started` distinguishes a reused pid.

    Sizes are bytes, and None where this kernel does not tell them (gVisor has no memory by kind).
    """

    pid: int
    name: str
    started: int
    rss_anon: int | None
    rss_file: int | None
    rss_shmem: int | None
    swap: int | None
    threads: int
    files: OpenFiles | None  # None for another user's process
    cpu_ns: int

    @property
    def fds(self) -> int | None:
        """Open files."""
        return None if self.files is None else self.files.fds

    @property
    def sockets(self) -> int | None:
        """Open files that are sockets."""
        return None if self.files is None else self.files.sockets


def file_cache(tree: Sequence[ProcessReading]) -> float | None:
    """Page cache (bytes) of the files that a tree has open for writing, each once; None when not all are known."""
    written: dict[tuple[int, int], int] = {}
    for each in tree:
        if each.files is None:
            return None
        written |= each.files.written
    return float(sum(written.values()))


def read_tree(pid: int, root: Path = Path("/proc"), ticks_per_s: int | None = None) -> tuple[ProcessReading, ...]:
    """Read a process and its descendants, itself first; empty when it does not exist or is a zombie."""
    main = read_process(pid, root, ticks_per_s)
    if main is None:
        return ()
    found, left = [main], _children(pid, root)
    while left:
        child = left.pop(0)
        seen = read_process(child, root, ticks_per_s)
        if seen is not None:
            found.append(seen)
            left += _children(child, root)
    return tuple(found)


def read_process(pid: int, root: Path = Path("/proc"), ticks_per_s: int | None = None) -> ProcessReading | None:
    """Read a process; None when it does not exist or is a zombie, which holds no memory."""
    try:
        sizes = _sizes(root / str(pid) / "status")
        # The name in parentheses may contain spaces and parentheses, so fields are counted from its end.
        head, _, tail = (root / str(pid) / "stat").read_text().rpartition(")")
        files = read_open_files(root / str(pid))
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = tail.split()
    if fields[0] in ("Z", "X"):
        return None
    ticks = ticks_per_s or os.sysconf("SC_CLK_TCK")
    return ProcessReading(
        pid=pid,
        name=head.partition("(")[2],
        started=int(fields[19]),
        rss_anon=sizes.get("RssAnon"),
        rss_file=sizes.get("RssFile"),
        rss_shmem=sizes.get("RssShmem"),
        swap=sizes.get("VmSwap"),
        threads=int(fields[17]),
        files=files,
        cpu_ns=(int(fields[11]) + int(fields[12])) * 1_000_000_000 // ticks,
    )


def _children(pid: int, root: Path) -> list[int]:
    """The children of all threads of a process, in order of pid."""
    found: set[int] = set()
    for path in (root / str(pid) / "task").glob("*/children"):
        try:
            found.update(int(each) for each in path.read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return sorted(found)


def _sizes(path: Path) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for row in path.read_text().splitlines():
        name, _, value = row.partition(":")
        if name in ("RssAnon", "RssFile", "RssShmem", "VmSwap"):
            sizes[name] = int(value.split()[0]) * 1024
    return sizes
