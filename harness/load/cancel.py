"""Planned cancels: clients close the connection at a stage of a request.

"queued"    right after the request is sent, before the head of the reply
"prefill"   after the head, before the first event
"token 3"   after the third event with text (one token each where the server sends token by token)
"after 2s"  2 s after the request is sent, wherever the server is with it
"""

from dataclasses import dataclass

from scenarios.units import parse_seconds


@dataclass(frozen=True)
class CancelAt:
    stage: str  # "queued" | "prefill" | "token" | "after"
    chunk: int = 0  # for "token": number of events with text to receive first
    after_s: float | None = None  # for "after"

    def due(self, stage: str, chunks: int = 0) -> bool:
        """True when the client closes the connection at this stage, after this number of events with text."""
        return stage == self.stage and chunks >= self.chunk


def parse_cancel(text: str | None) -> CancelAt | None:
    """Parse None or one of the forms above. Raises ValueError that says what is allowed."""
    if text is None:
        return None
    if text in ("queued", "prefill"):
        return CancelAt(text)
    word, _, count = text.partition(" ")
    if word == "token" and count.isdecimal() and int(count) >= 1:
        return CancelAt("token", int(count))
    if word == "after":
        return CancelAt("after", after_s=parse_seconds(count))
    raise ValueError(f'cancel at {text!r}: allowed are "queued", "prefill", "token N" with N of 1 or more, "after 2s"')
