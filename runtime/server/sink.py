"""The engine's Sink: hands a whole step to the event loop with one `call_soon_threadsafe`."""

import asyncio
from collections.abc import Callable

from runtime.core.env import Env, Event
from runtime.core.messages import Output

Deliver = Callable[[list[Output], list[Event]], None]


class LoopSink:
    """Called on the engine's thread; `deliver` runs on the loop's. Steps without news cost the loop nothing."""

    def __init__(self, env: Env, loop: asyncio.AbstractEventLoop, deliver: Deliver) -> None:
        self._env = env
        self._loop = loop
        self._deliver = deliver

    def step(self, outputs: list[Output]) -> None:
        """All news of this step, in batch order."""
        events = self._env.events.take()
        if not outputs and not events:
            return
        try:
            self._loop.call_soon_threadsafe(self._deliver, outputs, events)
        except RuntimeError:
            # The loop is closed: the process is ending, and every exchange has got its last word.
            if not self._loop.is_closed():
                raise
