"""Makes the text of an answer from token ids, without half characters and without the beginning of a stop string."""

from collections.abc import Callable, Sequence

from runtime.core.naming import BROKEN

Decode = Callable[[Sequence[int]], str]
"""Converts token ids to text; bytes that are not UTF-8 become U+FFFD."""

_PENDING_MAX = 32
_HELD_MAX = 3
"""Most bytes of an incomplete UTF-8 character."""


class Detokenizer:
    """Decodes incrementally: the pieces together are the text that decoding all tokens at once would give.

    Bytes that are not UTF-8 (yet) decode to U+FFFD: one for all of a cut character, or one for each of its bytes where
    a vocabulary falls back to bytes. Only the last three can still become a character, so at most three are held back,
    and a model that writes broken bytes can't stall the stream.

        tokens  ... window | pending        pending adds the text of (window + pending) without the text of window

    With byte fallback a broken byte also breaks whole characters right in front of it when all is decoded at once;
    text that was sent to a client is not changed.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._pending: list[int] = []
        self._shown = 0

    def push(self, tokens: Sequence[int]) -> str:
        """The new text that later tokens can't change."""
        text = ""
        for token in tokens:
            self._pending.append(token)
            added = self._added(self._pending)
            if added.endswith(BROKEN):
                text += self._show(added[: max(len(added.rstrip(BROKEN)), len(added) - _HELD_MAX)])
                if len(self._pending) > _PENDING_MAX:
                    self._shorten()
            else:
                text += self._show(added)
                self._window, self._pending, self._shown = self._pending, [], 0
        return text

    def flush(self) -> str:
        """The text that was held back, when no more tokens come."""
        return self._show(self._added(self._pending))

    def _added(self, tokens: list[int]) -> str:
        """The text that these tokens add behind the window."""
        before, whole = self._decode(self._window), self._decode(self._window + tokens)
        return whole[len(before) :] if whole.startswith(before) else self._decode(tokens)

    def _show(self, certain: str) -> str:
        fresh = certain[self._shown :]
        self._shown = max(self._shown, len(certain))
        return fresh

    def _shorten(self) -> None:
        """Moves the window forward, so that a long broken output is not decoded again for each token.

        A cut is safe when both sides decode to the text of the whole: no character lies across it.
        """
        joined = self._decode(self._pending)
        for cut in range(len(self._pending) - 4, 0, -1):
            left, right = self._pending[:cut], self._pending[cut:]
            if self._decode(left) + self._decode(right) == joined:
                self._shown -= len(self._added(left))
                self._window, self._pending = left, right
                return


class StopStrings:
    """Finds the stop string that is complete first, also across pieces, and holds back text that may begin one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.hit: str | None = None
        """The stop string that was found; no text follows it."""

    def push(self, text: str) -> str:
        """The new text that can't belong to a stop string."""
        if self.hit is not None:
            return ""
        text = self._held + text
        found = [(at + len(stop), at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            # The first one to be complete, so that the cut does not depend on how the text was split into pieces.
            _, at, self.hit = min(found)
            self._held = ""
            return text[:at]
        hold = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - hold :]
        return text[: len(text) - hold]

    def flush(self) -> str:
        """The text that was held back, when no more text comes."""
        held, self._held = self._held, ""
        return held


class Transcript:
    """The text of one answer, as it grows."""

    def __init__(self, decode: Decode, stops: Sequence[str], silent: frozenset[int]) -> None:
        self._detokenizer = Detokenizer(decode)
        self._stops = StopStrings(stops)
        self._silent = silent

    @property
    def stopped(self) -> bool:
        """True once a stop string was found: the answer is complete."""
        return self._stops.hit is not None

    def push(self, tokens: Sequence[int]) -> str:
        """The text that these tokens complete. A stop token has no text."""
        return self._stops.push(self._detokenizer.push([token for token in tokens if token not in self._silent]))

    def flush(self) -> str:
        """The rest of the text, at the end of the answer."""
        if self.stopped:
            return ""
        return self._stops.push(self._detokenizer.flush()) + self._stops.flush()


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
