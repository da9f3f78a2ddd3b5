"""The exit codes of `seatrial`, and the conversion of every exception into one of them.

0  pass          1  fail          2  unknown
3  an error of seatrial itself: any uncaught exception, also during imports
4  an invalid scenario or an invalid use of the command; nothing was started
130  interrupted (SIGINT, SIGTERM)
"""

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from enum import IntEnum
from typing import TextIO

HELP = "Exit codes: 0 pass, 1 fail, 2 unknown, 3 error of seatrial itself, 4 bad scenario or usage, 130 interrupted."


class Exit(IntEnum):
    PASS = 0
    FAIL = 1
    UNKNOWN = 2
    OURS = 3
    USAGE = 4
    INTERRUPTED = 130


class Refusal(Exception):
    """The user requested something that can't be done. The text says what was given, what is allowed, what to do."""


class Trouble(Exception):
    """A known problem of seatrial or its environment, reported without a traceback. Exit code 3."""


class Interrupted(BaseException):
    """SIGTERM was received. It is not an Exception, so that no `except Exception` handles it."""


def guarded(work: Callable[[], int], err: TextIO) -> int:
    """Run the command; turn its result or exception into an exit code and a message on `err`."""
    try:
        return _known(work())
    except (KeyboardInterrupt, Interrupted):
        print("seatrial: interrupted", file=err)
        return Exit.INTERRUPTED
    except Refusal as refusal:
        print(f"seatrial: {refusal}", file=err)
        return Exit.USAGE
    except Trouble as trouble:
        print(f"seatrial: {trouble}", file=err)
        return Exit.OURS
    except SystemExit as left:
        return _known(left.code if isinstance(left.code, int) else Exit.OURS if left.code else Exit.PASS)
    except BaseException as error:
        return _uncaught(error, err)


def _uncaught(error: BaseException, err: TextIO) -> int:
    """Print errors that have a text for users; write the traceback of any other error into a file."""
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help itself
        print(error.format_message(), file=err)  # type: ignore[attr-defined]
        return Exit.USAGE
    if hasattr(error, "format_message"):  # usage errors of the command-line library, whose class has moved before
        context = getattr(error, "ctx", None)
        if context is not None:
            print(context.get_usage(), file=err)
        print(f"seatrial: {error.format_message()}", file=err)
        return Exit.USAGE
    if type(error).__name__ == "Abort" and type(error).__module__.partition(".")[0] in {"typer", "click"}:
        print("seatrial: interrupted", file=err)
        return Exit.INTERRUPTED
    if type(error).__name__ == "ScenarioProblems" and type(error).__module__ == "scenarios.problems":
        print(error, file=err)  # not imported here: this file must work when no import does
        return Exit.USAGE
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    print(f"seatrial: internal error of seatrial, not of your server: {text}", file=err)
    print(f"  details: {_write_traceback(error)}", file=err)
    return Exit.OURS


def _write_traceback(error: BaseException) -> str:
    lines = "".join(traceback.format_exception(error))
    try:
        handle, path = tempfile.mkstemp(prefix="seatrial-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as out:
            out.write(f"{sys.argv}\nPython {sys.version}\n\n{lines}")
    except OSError as full:  # a full disk must not hide the error that it caused
        return f"could not be written ({full}):\n{lines}"
    return path


def _known(code: object) -> int:
    """Return `code` if it is an exit code of seatrial, else OURS: a library's 70 or 137 must not leave."""
    return code if isinstance(code, int) and code in Exit._value2member_map_ else Exit.OURS
