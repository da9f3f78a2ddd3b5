"""The server's own ledger, `outcomes.jsonl`: one line a fact, appended with one write each.

A line is in the kernel when the call returns, so kill -9 of this process loses nothing that was told. The supervisor
appends to the same file; O_APPEND keeps lines whole.
"""

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path

from faults import FaultSpec, FaultState, Fire, State

_NAMES_KEPT = 8192
_OVER = (State.HEALED, State.INVALID, State.CLEANED)


class Journal:
    """Thread safe. `path` None keeps no record."""

    def __init__(self, path: str | None) -> None:
        self._file = (
            None if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        )
        self._names: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()
        self._torn = False
        self.lost = 0
        """Lines that could not be written (a full disk); told as an event as soon as one can."""

    def know(self, server_id: str, request: str) -> None:
        """Rows of other parts name requests by the engine's id; the record uses the client's."""
        with self._lock:
            self._names[server_id] = request
            if len(self._names) > _NAMES_KEPT:
                self._names.popitem(last=False)

    def name(self, server_id: str | None) -> str | None:
        """The client's X-Request-Id of an engine's request."""
        return None if server_id is None else self._names.get(server_id, server_id)

    def write(self, kind: str, row: Mapping[str, object]) -> None:
        """One line. Errors: OSError when it could not be written; it is then counted as lost."""
        if self._file is None:
            return
        line = json.dumps({"e": kind, **row}, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            # A torn line is closed first: a reader then drops that one and not its successor too.
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
        """As `write`, for a caller that must go on serving: what is lost is counted, and told later."""
        try:
            if self.lost:
                lost = self.lost
                self.write("event", {"t_ns": row.get("t_ns"), "kind": "outcomes_lost", "value": lost, "detail": ""})
                self.lost -= lost
            self.write(kind, row)
        except OSError:
            return

    def event(self, t_ns: int, kind: str, value: float | None = None, detail: str = "") -> None:
        """Something happened to the process."""
        self.tell("event", {"t_ns": t_ns, "kind": kind, "value": value, "detail": detail})

    def marks(self, t_ns: int, fresh: Mapping[str, int]) -> None:
        """Counts since the last call."""
        for name, n in fresh.items():
            self.tell("mark", {"name": name, "t_ns": t_ns, "n": n})

    def audit(self, rows: Sequence[Mapping[str, object]]) -> None:
        """The rows of one audit."""
        for row in rows:
            self.tell("audit", row)

    def fire(self, fire: Fire) -> None:
        """Raises when it can't be written: the injector then calls the fault invalid, as evidence is missing."""
        self.write("fire", {**fire.to_json(), "request": self.name(fire.request)})

    def fault(self, state: FaultState) -> None:
        """Raises when it can't be written, as `fire`."""
        row = state.to_json()
        row.pop("error")
        self.write("fault", row)

    def close(self) -> None:
        """Nothing is written after this."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def persisted(path: str) -> list[FaultSpec]:
    """Faults to arm again after a restart: those with `persist` that nobody had healed when the process ended.

    `shutdown` is no healing: it only says that the process went away with the fault still armed.
    """
    last: dict[tuple[str, int], dict[str, object]] = {}
    with Path(path).open("rb") as lines:
        for line in lines:
            if b'"e":"fault"' not in line or not line.endswith(b"\n"):
                continue
            row = json.loads(line)
            # A fault that was cleaned had been healed before; keep what that line said of it.
            if row["state"] != State.CLEANED or (row["id"], row["n"]) not in last:
                last[row["id"], row["n"]] = row
    specs = [
        FaultSpec.from_json(row["spec"])
        for row in last.values()
        if row["state"] not in _OVER or row["healed_by"] == "shutdown"
    ]
    return [spec for spec in specs if spec.persist]
