"""The child: builds the engine and serves until it is told to stop. `python -m runtime.server.main`"""

import asyncio
import os
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import ExitStack

from runtime.server.config import ConfigError, ServerConfig, read_config
from runtime.server.flags import EXIT_USAGE, parser, server_flags
from runtime.server.journal import Journal, persisted
from runtime.server.parent_death_signal import die_with_parent
from runtime.server.ports import Build
from runtime.server.process import ServerProcess
from runtime.server.sockets import bind

LOADING = ("weights.read", "device.mem_info")
"""Points that are crossed while the runtime is built: a persisted fault of theirs must be there before."""


def main(argv: Sequence[str] | None = None, build: Build | None = None) -> int:
    """Exit code: 0 stopped, 4 bad settings, 70 the engine was lost, 71 the parent is gone."""
    args = parser().parse_args(argv)
    if args.parent is not None:
        die_with_parent(args.parent)
    try:
        config, engine = read_config(args.config, **server_flags(args))
        if args.model is not None:
            engine["model"] = args.model
        with ExitStack() as held:
            # Ports first: that one is taken is learnt before a model is loaded.
            sock, admin_sock = _sockets(config, args.fd, args.admin_fd, held)
            journal = Journal(config.outcomes)
            again = persisted(config.outcomes) if args.restarts and config.outcomes is not None else []
            # These come before anything is loaded, all others once everything stands.
            early = [spec for spec in again if spec.do.point in LOADING]
            runtime = (build or _runtime_build())(engine, journal, early)
            held.pop_all()
    except (ConfigError, ValueError, OSError) as error:
        print(f"seatrial server: {error}", file=sys.stderr)
        return EXIT_USAGE
    late = [spec for spec in again if spec not in early]

    async def serve() -> int:
        return await ServerProcess(runtime, config, journal, args.parent).run(sock, admin_sock, _say, late)

    code = asyncio.run(serve())
    journal.close()
    return code


def _sockets(
    config: ServerConfig, fd: int | None, admin_fd: int | None, held: ExitStack
) -> tuple[socket.socket, socket.socket | None]:
    """From the supervisor, so that ports stay the same after a restart, or our own."""
    sock = held.enter_context(bind(config.host, config.port) if fd is None else socket.socket(fileno=fd))
    if not config.admin:
        return sock, None
    own = admin_fd is None
    return sock, held.enter_context(bind("127.0.0.1", config.admin_port) if own else socket.socket(fileno=admin_fd))


def _runtime_build() -> Build:
    # Loads torch, so not before it is needed and never for --help.
    from runtime.build import build_served

    return build_served


def _say(line: str) -> None:
    print(line, flush=True)


def run(argv: Sequence[str] | None = None, build: Build | None = None) -> None:
    """`main`, and an end that does not wait for a thread which may hang in the device."""
    try:
        code = main(argv, build)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
