"""Reads the open files of a process: how many, how many are sockets, and the page cache of those it writes.

No process holds the page cache of a log, so its memory does not show it, but the limit of a container counts it.
"""

import ctypes
import mmap
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_MEMORY = ("/dev/shm/", "/memfd:")  # noqa: S108 (it is only compared)
"""Files in memory. They are counted as shared memory of the process that maps them."""


@dataclass(frozen=True)
class OpenFiles:
    """The open files of one process."""

    fds: int
    sockets: int
    written: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """Bytes in the page cache of each regular file that is open for writing, by device and inode."""


def read_open_files(process: Path) -> OpenFiles | None:
    """Read `/proc/PID`; None for another user's process. Raises FileNotFoundError when the process has ended."""
    try:
        names = os.listdir(process / "fd")
    except PermissionError:
        return None
    sockets, written = 0, {}
    for name in names:
        try:
            target = os.readlink(process / "fd" / name)
            sockets += target.startswith("socket:")
            if target.startswith("/") and not target.startswith(_MEMORY) and _for_writing(process / "fdinfo" / name):
                found = os.stat(process / "fd" / name)
                if stat.S_ISREG(found.st_mode):
                    written[found.st_dev, found.st_ino] = cached_bytes(process / "fd" / name, found.st_size)
        except (OSError, ValueError):  # closed or cut since it was listed, or not ours to open
            continue
    return OpenFiles(len(names), sockets, written)


def _for_writing(info: Path) -> bool:
    flags = next(row for row in info.read_text().splitlines() if row.startswith("flags:"))
    return int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY


def cached_bytes(path: Path, size: int) -> int:
    """The bytes of the file's first `size` bytes that are in the page cache, in whole pages (mincore(2)).

    Raises ValueError when the file is shorter by now, as a log is that was cut by its rotation.
    """
    if not size:
        return 0
    pages = -(-size // mmap.PAGESIZE)
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        resident = (ctypes.c_ubyte * pages)()
        failed = _mincore(ctypes.addressof(start), size, resident)
        del start  # the map can't be closed while it is in use
    if failed:
        raise OSError(ctypes.get_errno(), "mincore")
    return bytes(resident).count(1) * mmap.PAGESIZE  # Linux sets no other bit


_mincore = ctypes.CDLL(None, use_errno=True).mincore
_mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
