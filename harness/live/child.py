"""A child process with its own process group and log, and JSON lines in both directions.

Linux kills it when the harness dies (PR_SET_PDEATHSIG). `stop` sends SIGTERM first, then kills the whole group.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from runtime.server.parent_death_signal import die_with_parent


class ChildDied(Exception):
    """The process ended while the caller waited for a line. The text holds its exit code and last log lines."""


class Child:
    """The constructor starts the process. A reader thread receives its lines; all methods are for one caller thread."""

    def __init__(self, name: str, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._log = log
        self._heard: queue.Queue[dict[str, Any] | None] = queue.Queue()
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                env={**os.environ, **(env or {})},
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
        self._ear = threading.Thread(target=self._listen, name=f"{name}-lines", daemon=True)
        self._ear.start()

    @property
    def pid(self) -> int:
        """The id of the started process, which may be a supervisor with children of its own."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when a signal killed it."""
        return self._process.poll()

    def say(self, message: Mapping[str, object]) -> bool:
        """Send one JSON line; False when the process no longer reads."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            return False
        return True

    def heard(self) -> list[dict[str, Any]]:
        """The lines received since the last call; never waits."""
        lines = []
        with contextlib.suppress(queue.Empty):
            while (line := self._heard.get_nowait()) is not None:
                lines.append(line)
        return lines

    def wait_for(self, kind: str, timeout_s: float) -> dict[str, Any]:
        """Return the next line with `"e": kind`; other lines before it are dropped.

        Raises ChildDied when the process ends first, TimeoutError when no line comes in `timeout_s`.
        """
        while True:
            try:
                line = self._heard.get(timeout=timeout_s)
            except queue.Empty:
                raise TimeoutError(f"{self.name} sent no {kind!r} within {timeout_s:g} s; see {self._log}") from None
            if line is None:
                raise ChildDied(f"{self.name} ended with {describe(self._process.wait())}: {self.last_words()}")
            if line.get("e") == kind:
                return line

    def stop(self, grace_s: float) -> int:
        """End the process and its whole group; return its exit code. Safe to repeat."""
        if self._process.poll() is None:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        self.kill()
        code = self._process.wait()
        self._ear.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        return code

    def signal(self, number: int) -> None:
        """Send a signal to the process itself."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """Send SIGKILL to the whole process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def last_words(self, lines_max: int = 6) -> str:
        """The last lines of its log, for a message."""
        with self._log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 4096))
            tail = log.read().decode(errors="replace").strip().splitlines()[-lines_max:]
        return " | ".join(tail) or "it wrote nothing to its log"

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            try:
                line = json.loads(raw)
            except ValueError:
                line = None
            if isinstance(line, dict):
                self._heard.put(line)
            else:
                with self._log.open("ab") as log:
                    log.write(raw)
        self._heard.put(None)


def describe(code: int) -> str:
    """An exit code as text: "exit code 1" or "signal SIGKILL"."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
