"""The entry of the load process: it reads its config, reports `ready`, and obeys its parent until a stop.

stdout   {"e": "ready", ...}   {"e": "ack", "cmd": ...}   {"e": "idle"}   {"e": "breaker"}   {"e": "stopped", ...}
stdin    the commands of control.py
exit     0 stopped by command, 3 own failure, 4 bad config, 5 parent died
"""

import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.load.control import Command, ControlWriter, commands

if TYPE_CHECKING:
    from harness.load.locustfile import LocustLoad

OK, FAILED, BAD_CONFIG, ORPHANED = 0, 3, 4, 5


def main(arguments: list[str]) -> int:
    """Run one load process. Returns the exit code."""
    if len(arguments) != 1:
        print("usage: python -m harness.load CONFIG.json", file=sys.stderr)
        return BAD_CONFIG
    protocol_fd = _own_stdout()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent decides
    from harness.load import locustfile  # must be first: it patches modules that the imports below load
    from harness.load.config import read_config
    from runtime.config import ConfigProblems

    try:
        load = locustfile.LocustLoad(read_config(Path(arguments[0])))
    except (ConfigProblems, LookupError, OSError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return BAD_CONFIG
    gc.collect()
    gc.freeze()  # imported objects stay: a full collection would stop every stream for about 20 ms
    return _Session(load, ControlWriter(protocol_fd, load.run.ports.clock_ns)).serve()


class _Session:
    """Executes the parent's commands and reports to it."""

    def __init__(self, load: "LocustLoad", parent: ControlWriter) -> None:
        self._load = load
        self._run = load.run
        self._parent = parent

    def serve(self) -> int:
        self._load.spawn(self._watch)
        self._run.event("start", float(os.getpid()))
        self._parent.send("ready", pid=os.getpid(), loads=[load.id for load in self._run.config.loads])
        for command in commands(0):
            if command.problem:
                self._parent.send("refused", why=command.problem)
            elif command.cmd == "stop":
                return self._stop(command)
            else:
                self._obey(command)
        raise AssertionError("commands always end with a stop")

    def _obey(self, command: Command) -> None:
        plan_clock, clock_ns = self._run.plan_clock, self._run.ports.clock_ns
        if command.cmd == "start":
            if plan_clock.start_ns is not None:
                self._parent.send("refused", why="the load has started already")
                return
            self._load.start(command.fields.get("t0_ns", clock_ns()))
        elif command.cmd == "pause":
            plan_clock.pause(clock_ns())
        elif command.cmd == "phase":
            self._run.phase()
        elif command.cmd == "resume":
            plan_clock.resume(clock_ns())
        if command.cmd != "status":
            kind = "begin" if command.cmd == "start" else command.cmd  # "start" is the event of the process
            self._run.event(kind, command.fields.get("n"), command.fields.get("name"))
        self._parent.send("ack", cmd=command.cmd, t0_ns=plan_clock.start_ns, **self._counts())

    def _stop(self, command: Command) -> int:
        self._parent.send("ack", cmd="stop", **self._counts())
        orphaned = bool(command.fields.get("orphaned"))
        self._run.event("stop", command.fields.get("drain_s"), "the parent is gone" if orphaned else None)
        cut = self._load.stop(float(command.fields.get("drain_s", 0.0)))
        failure = self._run.failure
        self._parent.send("stopped", unfinished=cut, failure=_text(failure), **self._counts())
        if failure is not None:
            return FAILED
        return ORPHANED if orphaned else OK

    def _watch(self) -> None:
        """Report to the parent when a pause has become idle, when the breaker stopped the load, and when the run
        failed."""
        run, idle_reported, breaker_reported = self._run, False, False
        while run.failure is None:
            paused = run.plan_clock.paused_ns is not None
            if paused and not run.audit.in_flight and not idle_reported:
                self._parent.send("idle", **self._counts())
            idle_reported = paused and not run.audit.in_flight
            if run.stopped_by_breaker and not breaker_reported:
                breaker_reported = True
                run.event("breaker", None, run.stopped_by_breaker)
                self._parent.send("breaker", why=run.stopped_by_breaker)
            run.ports.sleep(0.02)
        self._parent.send("failed", failure=_text(run.failure))

    def _counts(self) -> dict[str, int]:
        audit = self._run.audit
        return {"sent": audit.sent, "done": audit.done, "dropped": audit.dropped, "in_flight": audit.in_flight}


def _text(error: BaseException | None) -> str | None:
    return None if error is None else f"{type(error).__name__}: {error}"


def _own_stdout() -> int:
    """Duplicate stdout for the protocol and redirect prints to stderr. Returns the descriptor."""
    protocol_fd = os.dup(1)
    os.dup2(2, 1)
    return protocol_fd
