"""Standard streams whose failures don't change the exit code: a closed pipe, a terminal without Unicode, SIGTERM."""

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TextIO, cast

from harness.exits import Interrupted


@contextmanager
def steady() -> Iterator[None]:
    """Inside `with`, characters that can't be encoded are escaped, a closed pipe is no error, and SIGTERM raises
    Interrupted."""
    out, err = sys.stdout, sys.stderr
    for stream in (out, err):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    ours = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _terminated) if ours else None
    sys.stdout, sys.stderr = cast("TextIO", Forgiving(out)), cast("TextIO", Forgiving(err))
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stdout, sys.stderr = out, err
        if ours:
            signal.signal(signal.SIGTERM, before)


class Forgiving:
    """A text stream whose reader may close (`seatrial judge latest | head -1`): later output is discarded."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._discard()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._discard()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _discard(self) -> None:
        # Python flushes again at exit and would report an error: point the descriptor at /dev/null.
        with suppress(OSError, io.UnsupportedOperation):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def _terminated(number: int, frame: FrameType | None) -> None:
    raise Interrupted
