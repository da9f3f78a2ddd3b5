"""The server process: builds the engine and serves until it is stopped. The supervisor starts it, with the listening
sockets that it owns: ports stay equal over restarts, and one in use is reported before a model is loaded."""

import asyncio
import os
import socket
import sys
import traceback
from collections.abc import Sequence
from functools import partial

from runtime.core.mechanism import mechanism
from runtime.server.config import ConfigError, read_config
from runtime.server.flags import EXIT_USAGE, parser, server_flags
from runtime.server.journal import Journal, persisted
from runtime.server.parent_death_signal import die_with_parent
from runtime.server.ports import Build
from runtime.server.process import ServerProcess

LOADING = ("weights.read", "device.mem_info")
"""Fault points that are crossed while the runtime is built: persisted faults of theirs are armed before."""


def main(argv: Sequence[str] | None = None, build: Build | None = None) -> int:
    """Runs the server and returns the exit code: 0 stopped, 4 bad settings, 70 the engine was lost, 71 the parent has
    ended."""
    args = parser().parse_args(argv)
    if args.parent is not None:
        die_with_parent(args.parent)
    try:
        config, engine = read_config(args.config, **server_flags(args))
        if args.model is not None:
            engine["model"] = args.model
        journal = Journal(config.outcomes)
        again = persisted(config.outcomes) if args.restarts and config.outcomes is not None else []
        # These are armed before the model is loaded, all others once the runtime is built.
        early = [spec for spec in again if spec.do.point in LOADING]
        runtime = (build or _runtime_build())(engine, journal, early)
    except (ConfigError, ValueError, OSError) as error:
        print(f"seatrial server: {error}", file=sys.stderr)
        return EXIT_USAGE
    late = [spec for spec in again if spec not in early]

    assert args.fd is not None, "this process is started by python -m runtime.server, with its sockets"
    sock = socket.socket(fileno=args.fd)
    admin_sock = socket.socket(fileno=args.admin_fd) if config.admin else None

    async def serve() -> int:
        return await ServerProcess(runtime, config, journal, args.parent).run(
            sock, admin_sock, partial(print, flush=True), late
        )

    try:
        code = asyncio.run(serve())
    except Exception as error:  # the process ends with a traceback; the journal says why, for the judges
        journal.event(runtime.env.clock.now_ns(), "exception", None, mechanism(error))
        raise
    journal.close()
    return code


def _runtime_build() -> Build:
    # Loads torch, so it is imported only when a runtime is built and never for --help.
    from runtime.build import build_served

    return build_served


def run(argv: Sequence[str] | None = None, build: Build | None = None) -> None:
    """Calls `main` and exits at once, without waiting for the engine's thread, which may hang in the device."""
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
