"""Ctrl-C and SIGTERM, turned into a flag: the first asks for an orderly end, the second for an immediate one."""

import signal
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any


class StopNow(BaseException):
    """The second signal: kill what we started and leave."""


@dataclass
class Stop:
    """Armed inside `with`; earlier handlers come back at its end."""

    asked: str | None = None
    """The name of the signal that asked; None while nobody did."""
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
