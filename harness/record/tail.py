"""Reads a growing file of JSON lines from an offset. An incomplete last line is left for the next read."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READ_BYTES_MAX = 4 << 20
LINE_BYTES_MAX = 1 << 20


@dataclass(frozen=True)
class TailRead:
    """The result of one read: complete lines, the number of lines that were not JSON objects, and the new offset."""

    lines: list[dict[str, Any]]
    garbage: int
    offset: int
    more: bool  # True when the read was full and should be repeated


class FileShrank(RuntimeError):
    """A spool became shorter. It is append-only, so it was replaced and its offset is invalid."""


def read_tail(path: Path, offset: int, read_bytes_max: int = READ_BYTES_MAX) -> TailRead:
    """Read complete lines from `offset`. A missing file has none. The content of a line never raises."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < offset:
                raise FileShrank(f"{path} is shorter than the {offset} bytes already taken from it; was it replaced?")
            file.seek(offset)
            data = file.read(read_bytes_max)
    except FileNotFoundError:
        return TailRead([], 0, offset, False)
    end = data.rfind(b"\n") + 1
    full = len(data) == read_bytes_max
    if not end:
        # A line without end would block the recorder for ever, so data longer than a line is skipped.
        too_long = len(data) > LINE_BYTES_MAX
        return TailRead([], 1 if too_long else 0, offset + len(data) if too_long else offset, too_long and full)
    lines: list[dict[str, Any]] = []
    garbage = 0
    for raw in data[: end - 1].split(b"\n"):
        value = _object(raw)
        if value is None:
            garbage += 1 if raw.strip() else 0
        else:
            lines.append(value)
    return TailRead(lines, garbage, offset + end, full)


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("e"), str) else None
