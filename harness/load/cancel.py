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

    def after_send(self) -> bool:
        return self.stage == "queued"

    def after_head(self) -> bool:
        return self.stage == "prefill"

    def after_chunk(self, chunks: int) -> bool:
        return self.stage == "token" and chunks >= self.chunk


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
