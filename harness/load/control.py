"""The control protocol of the load process: commands on stdin, replies on stdout, one JSON object per line.

    {"cmd": "start", "t0_ns": 123}          begin; t0_ns is CLOCK_MONOTONIC, absent means now
    {"cmd": "phase", "name": "trial", "n": 0}
    {"cmd": "pause"}   {"cmd": "resume"}    the schedule does not advance while paused
    {"cmd": "status"}
    {"cmd": "stop", "drain_s": 30.0}        send no more, wait for open replies, end

Each command is answered by `{"e": "ack", "cmd": ..., "t_ns": ..., ...}` or `{"e": "refused", "why": ...}`. End of file
on stdin means that the parent died; it acts as a stop without drain.
"""

import json
import os
import select
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

COMMANDS = ("start", "phase", "pause", "resume", "status", "stop")
LINE_BYTES_MAX = 65_536


@dataclass(frozen=True)
class Command:
    """A command of the parent. When `problem` is set the line was invalid and the other fields have no meaning."""

    cmd: str
    fields: dict[str, Any]
    problem: str = ""


ORPHANED = Command("stop", {"drain_s": 0.0, "orphaned": True})


def parse_command(line: bytes) -> Command:
    """Parse a line. An invalid line gives a Command with a problem; nothing is raised."""
    try:
        value = json.loads(line)
    except ValueError:
        return Command("", {}, f"not JSON: {line[:80]!r}")
    if not isinstance(value, dict) or value.get("cmd") not in COMMANDS:
        return Command("", {}, f"unknown command {line[:80]!r}; allowed: {', '.join(COMMANDS)}")
    drain_s = value.get("drain_s", 0.0)
    if not isinstance(drain_s, (int, float)) or drain_s < 0:
        return Command("", {}, f"drain_s {drain_s!r}: must be a number of seconds, 0 or more")
    if not isinstance(value.get("t0_ns", 0), int):
        return Command("", {}, f"t0_ns {value['t0_ns']!r}: must be an integer of CLOCK_MONOTONIC ns")
    return Command(value["cmd"], {key: field for key, field in value.items() if key != "cmd"})


def commands(fd: int) -> Iterator[Command]:
    """Yield commands from a pipe as they arrive, and ORPHANED at its end.

    `select` comes first because under gevent it yields to other greenlets; a plain read would block all of them.
    """
    held = b""
    while True:
        select.select([fd], [], [])
        data = os.read(fd, LINE_BYTES_MAX)
        if not data:
            yield ORPHANED
            return
        *lines, held = (held + data).split(b"\n")
        for line in lines:
            if line.strip():
                yield parse_command(line)
        if len(held) > LINE_BYTES_MAX:
            yield Command("", {}, f"a line of more than {LINE_BYTES_MAX} bytes")
            held = b""


class ControlWriter:
    """Writes whole lines to its own descriptor, so that a `print` can't mix with the protocol."""

    def __init__(self, fd: int, clock_ns: Callable[[], int]) -> None:
        self._fd = fd
        self._clock_ns = clock_ns

    def send(self, kind: str, **fields: object) -> None:
        """Write one line. A closed pipe is ignored: the end of stdin reports that the parent is gone."""
        line = json.dumps({"e": kind, "t_ns": self._clock_ns(), **fields}) + "\n"
        try:
            os.write(self._fd, line.encode())
        except BrokenPipeError:
            return
