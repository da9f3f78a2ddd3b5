"""The command `seatrial`. Large libraries are imported only by the command that needs them, so `--help` is quick."""

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script; returns the exit code (see `harness.exits`)."""
    from harness.exits import guarded

    return guarded(lambda: _command(sys.argv[1:] if argv is None else list(argv)), sys.stderr)


def _command(argv: list[str]) -> int:
    from harness.exits import Refusal, Trouble
    from harness.shadowing import shadows

    if not __debug__:
        raise Refusal("python -O removes the checks that seatrial relies on: start it without -O (or PYTHONOPTIMIZE)")
    if found := shadows():
        raise Trouble("\n".join(str(shadow) for shadow in found))

    from harness.cli.app import app
    from harness.streams import steady

    with steady():
        code = app(argv, prog_name="seatrial", standalone_mode=False)
    if found := shadows():
        raise Trouble("imported during the run: " + "\n".join(str(shadow) for shadow in found))
    return code if isinstance(code, int) else 0
