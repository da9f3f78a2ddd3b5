"""The exit codes, in the one place that decides them. A CI job reads nothing else.

0  pass          1  fail          2  unknown
3  an error of seatrial itself: anything uncaught, imports too
4  a bad scenario, or a wrong use of the command: nothing was started
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
    """The person asked for something that can't be done. The text says what was given, what is allowed, what to do."""


class Trouble(Exception):
    """Something of ours or under us is not in order, and we know what: said without a traceback, exit 3."""


class Interrupted(BaseException):
    """SIGTERM. Not an Exception, so that nothing on the way takes it for an error that it may handle."""


def guarded(work: Callable[[], int], err: TextIO) -> int:
    """Run the command and turn whatever leaves it into an exit code and a message that fits who made the mistake."""
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
    """Mistakes that carry a text for people keep it; the rest is ours, and its traceback goes into a file."""
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help itself
        print(error.format_message(), file=err)  # type: ignore[attr-defined]
        return Exit.USAGE
    if hasattr(error, "format_message"):  # the command-line library's own refusals, wherever it keeps their class
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
    print(f"seatrial: an error of our own, not of your server: {text}", file=err)
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
    """Only codes of the table leave: a stranger's 70 or 137 would be read as one of ours."""
    return code if isinstance(code, int) and code in Exit._value2member_map_ else Exit.OURS
