"""The engine's Sink: passes a whole step to the event loop with one `call_soon_threadsafe`."""

import asyncio
from collections.abc import Callable

from runtime.core.env import Env, Event
from runtime.core.messages import Output

Deliver = Callable[[list[Output], list[Event]], None]


class LoopSink:
    """Is called on the engine's thread and runs `deliver` on the loop's. Steps without outputs do not wake the loop."""

    def __init__(self, env: Env, loop: asyncio.AbstractEventLoop, deliver: Deliver) -> None:
        self._env = env
        self._loop = loop
        self._deliver = deliver

    def step(self, outputs: list[Output]) -> None:
        """Passes on all outputs of this step, in batch order, with the events since the last step."""
        events = self._env.events.take()
        if not outputs and not events:
            return
        try:
            self._loop.call_soon_threadsafe(self._deliver, outputs, events)
        except RuntimeError:
            # The loop is closed: the process is ending, and every session has ended.
            if not self._loop.is_closed():
                raise
