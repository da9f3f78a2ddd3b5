"""Planned cancels: clients close the connection at a stage of a request.

"queued"    right after the request is sent, before the head of the reply
"prefill"   after the head, before the first event
"token 3"   after the third event with text (one token each where the server sends token by token)
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class CancelAt:
    stage: str  # "queued" | "prefill" | "token"
    chunk: int = 0  # for "token": number of events with text to receive first

    def due(self, stage: str, chunks: int = 0) -> bool:
        """True when the client closes the connection at this stage, after this number of events with text."""
        return stage == self.stage and chunks >= self.chunk


def parse_cancel(text: str | None) -> CancelAt | None:
    """Parse None or one of the three forms above. Raises ValueError that says what is allowed."""
    if text is None:
        return None
    if text in ("queued", "prefill"):
        return CancelAt(text)
    word, _, count = text.partition(" ")
    if word == "token" and count.isdecimal() and int(count) >= 1:
        return CancelAt("token", int(count))
    raise ValueError(f'cancel at {text!r}: allowed are "queued", "prefill" and "token N" with N of 1 or more')
