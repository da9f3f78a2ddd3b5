"""SIGINT and SIGTERM as a flag: the first signal requests an orderly end, the second an immediate one."""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any


class StopNow(BaseException):
    """Raised by the second signal: kill every started process and exit."""


class Overdue(BaseException):
    """Raised in a run whose runtime under test, in this process, does not come back from one turn. It is no Exception,
    so that the runtime does not handle it. `in_target`: the turn is in the runtime. `signalled`: by a signal."""

    def __init__(self, text: str, *, in_target: bool, signalled: bool) -> None:
        super().__init__(text)
        self.in_target = in_target
        self.signalled = signalled


@dataclass
class Stop:
    """Handles the signals inside `with`, and restores the earlier handlers at its end."""

    asked: str | None = None
    """The name of the first signal; None while none was received."""
    on_first: Callable[[], None] = lambda: None
    """Called at the first signal, by its handler."""
    _before: dict[signal.Signals, Any] = field(default_factory=dict)

    def __enter__(self) -> "Stop":
        for each in (signal.SIGINT, signal.SIGTERM):
            self._before[each] = signal.signal(each, self._take)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.asked is not None:
            raise StopNow
        self.asked = signal.Signals(number).name
        self.on_first()
