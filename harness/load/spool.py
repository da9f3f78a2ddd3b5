"""An append-only file of JSON lines. After a kill -9 at most the last line is incomplete."""

import json
import os
from pathlib import Path


class SpoolFull(OSError):
    """A line could not be written completely, so the run can't be recorded and must end."""


class Spool:
    """The writer of one file. Each line is one `write`, so lines of several greenlets or threads never mix."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        size_bytes = os.fstat(self._fd).st_size
        if size_bytes and os.pread(self._fd, 1, size_bytes - 1) != b"\n":
            os.write(self._fd, b"\n")  # an earlier writer died within a line: end it before our first line

    def put(self, line: dict[str, object]) -> None:
        """Append one line. NUL in text becomes U+2400, because SQLite and terminals stop reading at NUL."""
        text = json.dumps(line, separators=(",", ":"), ensure_ascii=True)
        if "\\u0000" in text:
            text = text.replace("\\u0000", "\\u2400")
        data = text.encode("ascii") + b"\n"
        try:
            written = os.write(self._fd, data)
        except OSError as error:
            raise SpoolFull(error.errno, f"cannot write to {self.path}: {os.strerror(error.errno or 0)}") from error
        if written != len(data):
            raise SpoolFull(28, f"cannot write to {self.path}: {written} of {len(data)} bytes (is the disk full?)")

    def close(self) -> None:
        os.close(self._fd)
