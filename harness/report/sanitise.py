r"""Sanitises text of a run for HTML, XML, JSON in a script, Markdown, terminal and CI.

Replies of a server on trial may contain NUL, `</script>`, ANSI escapes, `::error` and lone surrogates. `clean` replaces
each by a visible escape such as `\x1b`; the other functions add the quoting of their language. No character is dropped
silently.
"""

import json
import re

# C0 except tab and newline, DEL, C1, line and paragraph separators, bidi controls, surrogates, non-characters.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)
_MARKDOWN = re.compile(r"([\\`*_\[\]|~#])")
# The GitHub runner takes `::word` at the start of any printed line, and `##[word` anywhere in one, as a command.
# Wrapping may put a `::` at a line's start, so it is split wherever a word follows.
_COMMAND = re.compile(r":(?=:\s*[A-Za-z])|##(?=\[)")


def clean(text: object) -> str:
    """The text with control characters replaced by escapes; XML 1.0 allows what is left. Newline and tab stay."""
    plain = str(text).replace("\r\n", "\n")
    return _NONCHARACTER.sub(_escape, _CONTROL.sub(_escape, plain))


def one_line(text: object, chars_max: int = 400) -> str:
    """Clean text on one line, cut to `chars_max` characters with the number of omitted ones."""
    line = " ".join(clean(text).split())
    return line if len(line) <= chars_max else f"{line[:chars_max]}… (+{len(line) - chars_max} characters)"


def script_json(value: object) -> str:
    """JSON for use inside `<script>`: ASCII without `<`, `>` and `&`. Raises ValueError for NaN and infinity."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def markdown(text: object, chars_max: int = 400) -> str:
    """One line of GitHub Markdown that shows the text literally, also in a table cell."""
    line = one_line(text, chars_max).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # An entity keeps `@name` from notifying a person of that name.
    return _MARKDOWN.sub(r"\\\1", line).replace("@", "&#64;")


def terminal(text: object) -> str:
    """Text for a terminal or CI log, without escape sequences and workflow commands."""
    return _COMMAND.sub(lambda found: found.group(0)[0] + " " + found.group(0)[1:], clean(text))


def annotation(text: object) -> str:
    """The message of a workflow command (`::error ::MESSAGE`), with newlines encoded for GitHub."""
    return clean(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def annotation_property(text: object) -> str:
    """A property of a workflow command (`::error title=PROPERTY::`)."""
    return annotation(text).replace(":", "%3A").replace(",", "%2C")


# The last two code points of each plane above the first: legal UTF-8, refused by some XML readers.
_NONCHARACTER = re.compile("[" + "".join(chr(p << 16 | 0xFFFE) + chr(p << 16 | 0xFFFF) for p in range(1, 17)) + "]")


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group(0))
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
