"""The command line, shared by the supervisor and its child. It loads no torch."""

import argparse
import signal

EXIT_STOPPED = 0
EXIT_USAGE = 4
EXIT_FATAL = 70
EXIT_ORPHAN = 71
RESTART = signal.SIGUSR1
"""The signal at which the supervisor ends its child in good order and starts another."""


class Parser(argparse.ArgumentParser):
    """argparse with exit code 4 for a bad command line."""

    def error(self, message: str) -> None:  # type: ignore[override]
        """Prints the error and exits with EXIT_USAGE."""
        self.print_usage()
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def parser() -> Parser:
    """The parser with all flags. Flags that only the supervisor passes to its child are hidden from the help."""
    made = Parser(
        prog="python -m runtime.server",
        description="OpenAI-compatible server over the seatrial runtime. Prints one JSON line when it is ready.",
    )
    made.add_argument("--config", metavar="FILE", help='JSON: {"server": {...}, "engine": {...}}; flags win over it')
    made.add_argument("--host", help="address to listen on (127.0.0.1)")
    made.add_argument("--port", type=int, help="0 takes a free one (default)")
    made.add_argument("--allow-host", action="store_true", default=None, help="permit a host that is not loopback")
    made.add_argument("--admin", action="store_true", default=None, help="offer /admin/* on a port of its own")
    made.add_argument("--admin-port", type=int, help="0 takes a free one (default)")
    made.add_argument("--outcomes", metavar="FILE", help="append the server's own ledger to this file")
    made.add_argument("--model", help="model directory or name, as engine.model in the config")
    made.add_argument("--fd", type=int, help=argparse.SUPPRESS)
    made.add_argument("--admin-fd", type=int, help=argparse.SUPPRESS)
    made.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    made.add_argument("--restarts", type=int, default=0, help=argparse.SUPPRESS)
    return made


def server_flags(args: argparse.Namespace) -> dict[str, object]:
    """The part of the command line that belongs to ServerConfig."""
    names = ("host", "port", "allow_host", "admin", "admin_port", "outcomes")
    return {name: getattr(args, name) for name in names}
