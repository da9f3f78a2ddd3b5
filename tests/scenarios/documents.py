"""Scenario texts for tests: one sound document, and TOML documents in every way of writing."""

import json
from random import Random
from typing import Any

from hypothesis import strategies as st

from scenarios.problems import Problem, ScenarioProblems
from scenarios.read import read_text
from scenarios.rules import KnownNames

SOUND = """\
schema = 1
name = "sound"
means = "nothing in particular"
phases = { trial = "60s" }
load = [{ id = "chat", rate = "2/s" }]
"""


def problems_of(text: str, known: KnownNames | None = None) -> list[Problem]:
    """What the reader finds wrong with a text; [] when nothing is."""
    try:
        read_text(text, "s.toml", known)
    except ScenarioProblems as found:
        return list(found.problems)
    return []


_KEYS = st.one_of(
    st.from_regex(r"\A[A-Za-z0-9_-]{1,5}\Z"), st.sampled_from(["a.b", "", "a b", 'q"q', "ü", "'", "#", "]"])
)
_SCALARS = st.one_of(
    st.integers(-(2**40), 2**40),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.sampled_from("ab\"\\'#[]{}=,\n\t.üé"), max_size=8),
    st.sampled_from(["RAW 1979-05-27 07:32:00Z", "RAW 1979-05-27", "RAW 07:32:00", "RAW 0xff", "RAW 1_000", "RAW inf"]),
)
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3))


@st.composite
def toml_documents(draw: st.DrawFn) -> str:
    """A valid TOML text in which the same tree may be written with headers, dotted keys or inline tables."""
    tree = draw(st.dictionaries(_KEYS, _VALUES, max_size=5))
    return _Writer(draw(st.randoms(use_true_random=False))).table(tree, [])


class _Writer:
    def __init__(self, chance: Random) -> None:
        self.chance = chance

    def table(self, tree: dict[str, Any], path: list[str]) -> str:
        """Pairs first, since they belong to the header above them; then what gets headers of its own."""
        pairs, below = "", ""
        for key, value in tree.items():
            here = [*path, key]
            is_tables = isinstance(value, list) and value and all(isinstance(each, dict) for each in value)
            if isinstance(value, dict) and self.chance.random() < 0.5:
                below += f"{self.gap()}[{self.dotted(here)}]{self.comment()}\n" + self.table(value, here)
            elif isinstance(value, dict) and value and self.chance.random() < 0.5:
                for inner, leaf in value.items():
                    pairs += f"{self.dotted([key, inner])} = {self.value(leaf)}{self.comment()}\n"
            elif is_tables and self.chance.random() < 0.7:
                for each in value:
                    below += f"{self.gap()}[[{self.dotted(here)}]]\n" + self.table(each, here)
            else:
                pairs += f"{self.gap()}{self.key(key)}={self.space()}{self.value(value)}{self.comment()}\n"
        return pairs + below

    def value(self, value: Any, in_line: bool = False) -> str:
        if isinstance(value, dict):
            inner = f",{self.space()}".join(f"{self.key(k)} = {self.value(v, True)}" for k, v in value.items())
            return f"{{{self.space()}{inner}{self.space()}}}"
        if isinstance(value, list):
            blank = self.space if in_line else self.blank
            inner = "".join(f"{blank()}{self.value(each, in_line)}{blank()}," for each in value)
            return f"[{inner if self.chance.random() < 0.5 else inner.removesuffix(',')}{blank()}]"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            return value.removeprefix("RAW ") if value.startswith("RAW ") else self.string(value)
        return repr(value)

    def string(self, text: str) -> str:
        style = self.chance.randrange(4)
        if style == 0 and "'" not in text and "\n" not in text:
            return f"'{text}'"
        if style == 1 and "'" not in text:
            return f"'''\n{text}'''"
        if style == 2:
            body = text.replace("\\", "\\\\").replace('"""', '""\\"')  # one or two quotes may end it unescaped
            return f'"""\n{body}"""'
        return json.dumps(text, ensure_ascii=False)

    def key(self, key: str) -> str:
        bare = key != "" and all(c.isascii() and (c.isalnum() or c in "_-") for c in key)
        if bare and self.chance.random() < 0.7:
            return key
        return f"'{key}'" if "'" not in key and self.chance.random() < 0.5 else json.dumps(key, ensure_ascii=False)

    def dotted(self, path: list[str]) -> str:
        return self.chance.choice([".", " . "]).join(self.key(part) for part in path)

    def space(self) -> str:
        return self.chance.choice(["", " ", "  ", "\t"])

    def blank(self) -> str:
        return self.chance.choice(["", " ", "\n", '\n # "not a string\n  '])

    def gap(self) -> str:
        return self.chance.choice(["", "", "\n", "# [not.a.table]\n", "  "])

    def comment(self) -> str:
        return self.chance.choice(["", "", " # x = 1", "\t"])
