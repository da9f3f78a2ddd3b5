"""The server's journal, `outcomes.jsonl`: one JSON line for each fact, appended with one write.

A line is in the kernel when the call returns, so kill -9 of this process loses no written line. The supervisor appends
to the same file; O_APPEND keeps lines whole.
"""

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from faults import FaultSpec, FaultState, Fire, State

_NAMES_KEPT = 8192
_ENDED = (State.HEALED, State.INVALID, State.CLEANED)


class Journal:
    """Appends lines to the file `path`; with None it writes nothing. It may be used by several threads."""

    def __init__(self, path: str | None) -> None:
        self._file = (
            None if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        )
        self._names: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()
        self._torn = False
        self.lost = 0
        """Lines that could not be written, as on a full disk. An event reports them as soon as a write succeeds."""

    def add_name(self, server_id: str, request: str) -> None:
        """Remembers the client's request id for `server_id`: rows name requests by the client's id."""
        with self._lock:
            self._names[server_id] = request
            if len(self._names) > _NAMES_KEPT:
                self._names.popitem(last=False)

    def name(self, server_id: str | None) -> str | None:
        """The client's X-Request-Id for a server id, or the server id when it is unknown."""
        return None if server_id is None else self._names.get(server_id, server_id)

    def write(self, kind: str, row: Mapping[str, object]) -> None:
        """Writes one line. Raises OSError when it can't be written; the line is then counted as lost."""
        if self._file is None:
            return
        line = json.dumps({"e": kind, **row}, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            # A torn line is ended first, so that a reader drops only that line and not the next one.
            line = b"\n" + line if self._torn else line
            try:
                written = os.write(self._file, line)
            except OSError:
                self.lost += 1
                raise
            self._torn = written < len(line)
            if self._torn:
                self.lost += 1
                raise OSError(f"only {written} of {len(line)} bytes were written")

    def tell(self, kind: str, row: Mapping[str, object]) -> None:
        """Writes one line, without raising: lost lines are counted and reported later."""
        try:
            if self.lost:
                lost = self.lost
                self.write("event", {"t_ns": row.get("t_ns"), "kind": "outcomes_lost", "value": lost, "detail": ""})
                self.lost -= lost
            self.write(kind, row)
        except OSError:
            return

    def event(self, t_ns: int, kind: str, value: float | None = None, detail: str = "") -> None:
        """Writes an event of the process."""
        self.tell("event", {"t_ns": t_ns, "kind": kind, "value": value, "detail": detail})

    def fire(self, fire: Fire) -> None:
        """Writes a fire. Raises OSError when it can't: the injector then marks the fault invalid."""
        self.write("fire", {**fire.to_json(), "request": self.name(fire.request)})

    def fault(self, state: FaultState) -> None:
        """Writes a state of a fault. Raises OSError when it can't, as `fire`."""
        self.write("fault", state.to_json())

    def close(self) -> None:
        """Closes the file; later lines are dropped."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def persisted(path: str) -> list[FaultSpec]:
    """Faults to arm again after a restart: those with `persist` that were not healed when the process ended.

    A fault that was healed by `shutdown` counts as armed: its process ended before the fault did.
    """
    last: dict[tuple[str, int], dict[str, object]] = {}
    with Path(path).open("rb") as lines:
        for line in lines:
            if b'"e":"fault"' not in line or not line.endswith(b"\n"):
                continue
            row = json.loads(line)
            # A cleaned fault had been healed before; the line that says by what is kept.
            if row["state"] != State.CLEANED or (row["id"], row["n"]) not in last:
                last[row["id"], row["n"]] = row
    specs = [
        FaultSpec.from_json(row["spec"])
        for row in last.values()
        if row["state"] not in _ENDED or row["healed_by"] == "shutdown"
    ]
    return [spec for spec in specs if spec.persist]
