"""One HTTP exchange and the engine's news for it: a queue with a bound between the loop and one client.

    engine -> deliver -> push ---> news (bounded) ---> next -> reply -> client
                          |                              ^
                          `-- client blocked and bound reached: leave(NOT_READING) --> Cancel, connection aborted

Two things must be known before its row is written: how the engine ended it, and how the answer was delivered.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from runtime.core.edge import End, Ended, Output

NOT_READING = "client_does_not_read"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, from the request's headers."""

    request: str
    """The client's X-Request-Id, or the server's id when it sent none."""
    server_id: str
    group: str
    load: str | None
    """X-Seatrial-Load: the load this request belongs to, for scopes of faults."""
    arrive_ns: int
    timeout_s: float


class Exchange:
    """Belongs to the event loop's thread."""

    def __init__(
        self, caller: Caller, deadline_ns: int, prompt_tokens: int, news_max: int, cancel: Callable[[str, str], None]
    ) -> None:
        self.caller = caller
        self.deadline_ns = deadline_ns
        self.prompt_tokens = prompt_tokens
        self.ended: Ended | None = None
        """The engine's word, once it has spoken."""
        self.gone: str | None = None
        """Why nobody listens any more; None while somebody does."""
        self.answered: tuple[str, str | None, str | None] | None = None
        """(outcome, code, finish) as the client got it, once that is settled. Filled by the door."""
        self.first_ns: int | None = None
        """First and last token, on the loop. Filled by the meter."""
        self.last_ns: int | None = None
        self.sending_ns: int | None = None
        """Since when a write waits for the client. Filled by the reply."""
        self.abort: Callable[[], None] = lambda: None
        """Cuts the connection. Filled by the reply."""
        self._news: deque[Output] = deque()
        self._news_max = news_max
        self._stir = asyncio.Event()
        self._cancel = cancel

    @property
    def server_id(self) -> str:
        """The engine's name for it."""
        return self.caller.server_id

    def push(self, output: Output) -> None:
        """News from the engine. A client that has let too much pile up is cancelled; its end is still noted."""
        if output.ended is not None:
            self.ended = output.ended
        if self.gone is None:
            self._news.append(output)
            # Only while a write is stuck: a loop that was late piles up news too, and that is not the client's fault.
            if len(self._news) > self._news_max and self.sending_ns is not None:
                self.leave(NOT_READING)
                self.abort()
        self._stir.set()

    async def next(self, timeout_s: float) -> Output | None:
        """The next news, or None when the client is gone. Errors: TimeoutError."""
        if not self._news and self.gone is None:
            async with asyncio.timeout(timeout_s):
                while not self._news and self.gone is None:
                    self._stir.clear()
                    await self._stir.wait()
        return None if self.gone is not None else self._news.popleft()

    def leave(self, why: str) -> None:
        """Nobody listens any more: the engine is told, once, and what was not sent is dropped."""
        if self.gone is not None:
            return
        self.gone = why
        self._news.clear()
        if self.ended is None:
            self._cancel(self.server_id, why)
        self._stir.set()

    def end_by_server(self, end: End, now_ns: int) -> None:
        """The server speaks the last word because the engine can't."""
        if self.ended is None:
            arrive_ns = self.caller.arrive_ns
            self.push(
                Output(self.server_id, (), Ended(end, arrive_ns, None, None, now_ns, self.prompt_tokens, 0, 0, 0))
            )
