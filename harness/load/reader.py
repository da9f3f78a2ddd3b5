"""Reads a stream of server-sent events, each with the arrival time of its bytes.

    bytes -> LineSplitter -> data lines -> event -> chunks.merge_chunk
             bounded                       with the arrival time of its bytes

This module uses no socket and no clock. The caller feeds bytes with their arrival time, which is taken before parsing.
"""

import hashlib
from collections.abc import Callable, Iterable

from harness.load.chunks import SAMPLE_CHARS_MAX, StreamStats, merge_chunk, parse_chunk

LINE_BYTES_MAX = 1 << 20


class EventReader:
    """Parses the bytes of an event stream. `on_gap(ns)` is called for each gap between two events with text."""

    def __init__(self, on_gap: Callable[[int], None] | None = None) -> None:
        self.stats = StreamStats()
        self._on_gap = on_gap
        self._lines = LineSplitter()
        self._data: list[bytes] = []
        self._data_ns = 0
        self._sha = hashlib.blake2b(digest_size=16)

    def feed(self, data: bytes, now_ns: int) -> None:
        """Parse bytes that arrived at `now_ns`. Data from the server never raises."""
        for line in self._lines.feed(data):
            self._line(line, now_ns)
        if self._lines.overlong:
            self._lines.overlong = False
            self._malformed(f"a line of more than {LINE_BYTES_MAX} bytes".encode())

    def close(self, now_ns: int) -> None:
        """End a stream that closed in order: its last event may lack a blank line. Do not call it after a cut."""
        for line in [*self._lines.rest(), b""]:
            self._line(line, now_ns)

    def text_sha(self) -> str | None:
        """The digest of the text so far; None without text."""
        return self._sha.hexdigest() if self.stats.chunks else None

    def _line(self, line: bytes, now_ns: int) -> None:
        if line.startswith(b"data:"):
            if not self._data:
                self._data_ns = now_ns
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif not line and self._data:
            event, self._data = b"\n".join(self._data), []
            self._event(event, self._data_ns)
        # other lines are comments (":") or fields such as "event:" and "id:", which are not needed

    def _event(self, event: bytes, event_ns: int) -> None:
        stats = self.stats
        if stats.done_ns is not None:
            return  # after [DONE] nothing counts
        if event.strip() == b"[DONE]":
            stats.done_ns = event_ns
            return
        chunk = parse_chunk(event)
        if chunk is None:
            self._malformed(event)
            return
        text = merge_chunk(stats, chunk)
        if text:
            self._text(text, event_ns)

    def _text(self, text: str, event_ns: int) -> None:
        stats = self.stats
        if stats.last_ns is None:
            stats.first_ns = event_ns
        else:
            gap_ns = event_ns - stats.last_ns
            stats.gap_ns_sum += gap_ns
            stats.gap_ns_max = gap_ns if stats.gap_ns_max is None else max(stats.gap_ns_max, gap_ns)
            if self._on_gap is not None:
                self._on_gap(gap_ns)
        stats.last_ns = event_ns
        stats.chunks += 1
        self._sha.update(text.encode("utf-8", "surrogatepass"))
        if len(stats.sample) < SAMPLE_CHARS_MAX:
            stats.sample += text[: SAMPLE_CHARS_MAX - len(stats.sample)]

    def _malformed(self, event: bytes) -> None:
        self.stats.malformed += 1
        if self.stats.malformed_text is None:
            self.stats.malformed_text = event[:SAMPLE_CHARS_MAX].decode("utf-8", "backslashreplace")


class LineSplitter:
    """Splits bytes at LF, CR LF or CR, and holds at most LINE_BYTES_MAX bytes of an unfinished line."""

    def __init__(self) -> None:
        self._held = b""
        self._skipping = False
        self.overlong = False  # True when a line was too long and was dropped; the caller resets it

    def feed(self, data: bytes) -> Iterable[bytes]:
        held = self._held + data if self._held else data
        if b"\r" in held:
            # A CR at the end may be half of CR LF: leave it for the next bytes.
            tail = b"\r" if held.endswith(b"\r") else b""
            held = held[: len(held) - len(tail)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + tail
        *lines, self._held = held.split(b"\n")
        if self._skipping and lines:
            self._skipping = False
            lines = lines[1:]
        if self._skipping or len(self._held) > LINE_BYTES_MAX:
            self.overlong = self.overlong or not self._skipping
            self._skipping, self._held = True, b""
        return lines

    def rest(self) -> list[bytes]:
        """The last line of a stream that ended without a line end."""
        held, self._held = self._held.rstrip(b"\r"), b""
        return [held] if held and not self._skipping else []
