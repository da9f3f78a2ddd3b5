"""The supervisor: starts the server, restarts it after a fatal error or a crash, and leaves no orphan. Loads no torch.

    child exits 0           stopped as asked                      supervisor exits 0
    child exits 4           bad settings                          supervisor exits 4; a restart would not help
    child exits 70          the engine was lost                   restart after a pause that doubles each time
    any other exit          a crash or a kill                     restart after a pause that doubles each time
    too many in a row       `restarts_max`, each short-lived      supervisor exits 70
    SIGTERM, SIGINT         passed on; SIGKILL after a limit      supervisor exits with the child's code
    SIGUSR1                 SIGTERM, SIGKILL after a limit        restart at once
    own parent has ended    handled as SIGTERM

The supervisor owns the listening sockets and passes them down: the port stays equal over restarts and no other process
can take it. While no child lives the sockets do not listen, so clients are refused at once and do not wait.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

from runtime.server.flags import EXIT_FATAL, EXIT_STOPPED, EXIT_USAGE, RESTART
from runtime.server.journal import Journal
from runtime.server.parent_death_signal import die_with_parent
from runtime.server.sockets import bind, stop_listening

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits of the supervisor."""

    pause_s: float = 0.25
    """Pause before the first restart; it doubles with each restart in a row."""
    pause_s_max: float = 8.0
    restarts_max: int = 10
    """Most restarts in a row, each after a life of less than `healthy_s`."""
    healthy_s: float = 30.0
    stop_s_max: float = 15.0
    """Time from SIGTERM to SIGKILL."""


class Supervisor:
    """Runs one child at a time. `command(restarts)` gives the child's argument list."""

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        sockets: Sequence[socket.socket],
        journal: Journal,
        policy: Policy,
    ) -> None:
        self._command = command
        self._sockets = sockets
        self._journal = journal
        self._policy = policy
        self._parent_pid = os.getppid()
        self._signal: int | None = None
        self._restart = False
        """True from the signal RESTART until the child has ended."""

    def run(self) -> int:
        """Runs children until no restart is due, and returns the exit code. Call it in the main thread only."""
        for number in (signal.SIGTERM, signal.SIGINT, RESTART):
            signal.signal(number, self._on_signal)
        restarts, in_a_row = 0, 0
        while True:
            started_ns = time.monotonic_ns()
            code = self._run_child(restarts)
            lived_s = (time.monotonic_ns() - started_ns) / 1e9
            asked, self._restart = self._restart, False
            if self._signal is not None or (code in (EXIT_STOPPED, EXIT_USAGE) and not asked):
                return code if code >= 0 else 128 - code
            restarts += 1
            if asked:
                in_a_row = 0
                continue
            in_a_row = 1 if lived_s >= self._policy.healthy_s else in_a_row + 1
            if in_a_row > self._policy.restarts_max:
                text = f"{in_a_row} exits in a row, the last with code {code}; not started again"
                self._journal.event(time.monotonic_ns(), "gave_up", code, text)
                return EXIT_FATAL
            self._pause(min(self._policy.pause_s * 2 ** (in_a_row - 1), self._policy.pause_s_max))
            if self._signal is not None:
                return 0

    def _run_child(self, restarts: int) -> int:
        """Starts a child and waits for its end. Returns its exit code, negative for a signal."""
        own_pid = os.getpid()
        # The child has a process group of its own: Ctrl-C reaches it once, through the supervisor, and it can be killed
        # with all processes that it started.
        child = subprocess.Popen(
            list(self._command(restarts)),
            pass_fds=[sock.fileno() for sock in self._sockets],
            process_group=0,
            preexec_fn=lambda: die_with_parent(own_pid),
        )
        self._journal.event(time.monotonic_ns(), "start", restarts, f"pid {child.pid}")
        try:
            code = self._wait_for_exit(child)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)  # every process that the child has started and left behind
        for sock in self._sockets:
            stop_listening(sock)
        self._journal.event(time.monotonic_ns(), "exit", code, f"pid {child.pid}")
        return code

    def _wait_for_exit(self, child: "subprocess.Popen[bytes]") -> int:
        """Waits for the child's end. Passes signals on, and sends SIGKILL `stop_s_max` after one."""
        sent: int | None = None
        kill_ns: int | None = None
        while True:
            if os.getppid() != self._parent_pid and self._signal is None:
                self._signal = signal.SIGTERM
            if sent is None and (self._signal is not None or self._restart):
                sent = self._signal or signal.SIGTERM
                kill_ns = time.monotonic_ns() + round(self._policy.stop_s_max * 1e9)
                child.send_signal(sent)
            if kill_ns is not None and time.monotonic_ns() > kill_ns:
                child.kill()
            try:
                return child.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                continue

    def _pause(self, pause_s: float) -> None:
        """Waits between two children; a signal ends the wait."""
        end_ns = time.monotonic_ns() + round(pause_s * 1e9)
        while self._signal is None and time.monotonic_ns() < end_ns:
            time.sleep(min(_POLL_S, pause_s))
            if os.getppid() != self._parent_pid:
                self._signal = signal.SIGTERM

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number == RESTART:
            self._restart = True
        else:
            self._signal = number


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `python -m runtime.server` and returns the exit code."""
    from runtime.server.config import ConfigError, read_config
    from runtime.server.flags import parser, server_flags

    given = list(sys.argv[1:] if argv is None else argv)
    args = parser().parse_args(given)
    try:
        config, _ = read_config(args.config, **server_flags(args))
        config.groups()
        sockets = [bind(config.host, config.port)]
        if config.admin:
            sockets.append(bind("127.0.0.1", config.admin_port))
        journal = Journal(config.outcomes)
    except (ConfigError, OSError) as error:
        print(f"seatrial server: {error}", file=sys.stderr)
        return EXIT_USAGE
    fds = ["--fd", str(sockets[0].fileno())]
    fds += ["--admin-fd", str(sockets[1].fileno())] if config.admin else []
    own = ["--parent", str(os.getpid())]

    def command(restarts: int) -> list[str]:
        return [sys.executable, "-m", "runtime.server.main", *given, *fds, *own, "--restarts", str(restarts)]

    return Supervisor(command, sockets, journal, Policy()).run()
