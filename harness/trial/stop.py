"""SIGINT and SIGTERM as a flag: the first signal requests an orderly end, the second an immediate one."""

import signal
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any


class StopNow(BaseException):
    """Raised by the second signal: kill every started process and exit."""


@dataclass
class Stop:
    """Handles the signals inside `with`, and restores the earlier handlers at its end."""

    asked: str | None = None
    """The name of the first signal; None while none was received."""
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
