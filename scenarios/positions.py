"""Finds the position of each key and value in a TOML document, which `tomllib` does not report.

    [[fault]]                      ("fault", 0)          at `fault`
    do = "kv.take: oom"            ("fault", 0, "do")    key `do`, value `"kv.take: oom"`
    when = { at = "5s" }           ("fault", 0, "when"), ("fault", 0, "when", "at")

The scanner only runs on text that `tomllib` has accepted, so it does not check for errors. Tests compare it with
`tomllib` on generated documents: both give the same paths, and each value's text parses to the same value.
"""

import re
import tomllib
from dataclasses import dataclass
from typing import Final

Path = tuple[str | int, ...]

_BLANK: Final = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})' r"|'''.*?'''(?:'{0,2})" r'|"(?:\\.|[^"\\\n])*"' r"|'[^'\n]*'", re.DOTALL
)
_SCALAR: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]*|[^\s,\]}#]+")


@dataclass(frozen=True, slots=True)
class TextRange:
    """A half-open range of characters in the text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Location:
    """The text ranges of a path's key and value. For a table with a header both are the header's key."""

    key: TextRange
    value: TextRange


def locate(text: str) -> dict[Path, Location]:
    """The location of every path in a valid TOML document with "\\n" line ends."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.locations


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.locations: dict[Path, Location] = {}
        self.lengths: dict[Path, int] = {}
        """Lengths of arrays of tables, so that [a.b] after [[a]] belongs to the last a."""

    def document(self) -> None:
        table: Path = ()
        self._skip(_BLANK)
        while self.at < len(self.text):
            if self.text.startswith("[[", self.at):
                table = self._header(2)
            elif self.text.startswith("[", self.at):
                table = self._header(1)
            else:
                self._pair(table)
            self._skip(_BLANK)

    def _header(self, brackets: int) -> Path:
        self.at += brackets
        keys = self._key()
        self.at += brackets
        path: Path = ()
        for depth, (name, span) in enumerate(keys, 1):
            path = (*path, name)
            if depth == len(keys) and brackets == 2:
                self.lengths[path] = self.lengths.get(path, 0) + 1
            self.locations.setdefault(path, Location(span, span))
            if path in self.lengths:
                path = (*path, self.lengths[path] - 1)
                self.locations.setdefault(path, Location(span, span))
        return path

    def _pair(self, table: Path) -> None:
        keys = self._key()
        self.at += 1  # the "="
        self._skip(_SPACE)
        path = table
        for name, span in keys[:-1]:
            path = (*path, name)
            self.locations.setdefault(path, Location(span, span))
        name, span = keys[-1]
        path = (*path, name)
        start = self.at
        self._value(path)
        self.locations[path] = Location(span, TextRange(start, self.at))

    def _key(self) -> list[tuple[str, TextRange]]:
        """Read the parts of a dotted key, up to "=" or "]"."""
        parts: list[tuple[str, TextRange]] = []
        while True:
            self._skip(_SPACE)
            match = _BARE_KEY.match(self.text, self.at)
            if match is None:
                match = _STRING.match(self.text, self.at)
                assert match is not None, f"no key at {self.at}"
                name = str(tomllib.loads(f"key = {match[0]}")["key"])
            else:
                name = match[0]
            parts.append((name, TextRange(match.start(), match.end())))
            self.at = match.end()
            self._skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1

    def _value(self, path: Path) -> None:
        match self.text[self.at]:
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case '"' | "'":
                self._skip(_STRING)
            case _:
                self._skip(_SCALAR)

    def _array(self, path: Path) -> None:
        self.at += 1
        index = 0
        while True:
            self._skip(_BLANK)
            if self.text[self.at] == "]":
                self.at += 1
                return
            start = self.at
            self._value((*path, index))
            span = TextRange(start, self.at)
            self.locations[(*path, index)] = Location(span, span)
            index += 1
            self._skip(_BLANK)
            if self.text[self.at] == ",":
                self.at += 1

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        while True:
            self._skip(_BLANK)  # newlines only where a later TOML allows them
            if self.text[self.at] == "}":
                self.at += 1
                return
            self._pair(path)
            self._skip(_BLANK)
            if self.text[self.at] == ",":
                self.at += 1

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        assert match is not None, f"the scanner lost its way at {self.at}"
        self.at = match.end()
