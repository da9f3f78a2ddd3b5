"""Translates pydantic's errors into broken rules with path, rule and remedy."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from scenarios.positions import Path
from scenarios.units import InvalidValue

_RULES: Final = {
    "string_type": "a string is wanted here",
    "int_type": "a whole number is wanted here",
    "int_from_float": "a whole number is wanted here",
    "float_type": "a number is wanted here",
    "bool_type": "true or false is wanted here",
    "tuple_type": "a list is wanted here",
    "dict_type": "a table is wanted here",
    "model_type": "a table is wanted here",
    "model_attributes_type": "a table is wanted here",
    "string_too_short": "the text is empty",
    "finite_number": "the number is not finite",
    "too_short": "the list is empty",
}
_EXAMPLES: Final = {
    "schema": "schema = 1",
    "name": 'name = "my-trial"',
    "means": 'means = "what a FAIL would mean"',
    "phases": 'phases = { trial = "60s" }',
    "trial": 'trial = "60s"',
    "load": '[[load]] with id = "chat" and rate = "2/s"',
    "id": 'id = "a-name"',
    "do": 'do = "kv.take: oom"',
    "that": 'that = "ttft.p99 < 800ms"',
    "share": "share = 0.05",
    "file": 'file = "trace.csv"',
    "every": 'every = "40m"',
    "completed": "completed = 100",
}


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A broken rule at a path of the file.

    It is dropped when one of the paths in `about` is broken too. `on_key` means that the key is wrong and not its
    value. `instead` is the path of the key that was probably meant.
    """

    path: Path
    rule: str
    remedy: str = ""
    about: tuple[Path, ...] = ()
    on_key: bool = False
    instead: Path | None = None


def broken_rules(error: ValidationError, raw: object, keys: Mapping[int, tuple[str, ...]]) -> list[BrokenRule]:
    """All errors as broken rules. `keys` holds the known keys of each raw table by its id (see `types.KEYS`)."""
    found = [_finding(one, raw, keys) for one in error.errors(include_url=False)]
    slips = {each.instead for each in found if each is not None and each.instead}
    return [each for each in found if each is not None and (each.instead or each.path not in slips)]


def _finding(error: Any, raw: object, keys: Mapping[int, tuple[str, ...]]) -> BrokenRule | None:
    kind, context = error["type"], error.get("ctx", {})
    path = _path(error["loc"], raw, kind)
    match kind:
        case "default_factory_not_called":
            return None  # a consequence of another error of the same table
        case "too_short" if _at(raw, path):
            return None  # only valid elements were counted; the others have their own errors
        case "missing":
            example = _EXAMPLES.get(str(path[-1]), "")
            return BrokenRule(path, "this key is required", f"add {example}" if example else "", on_key=True)
        case "extra_forbidden":
            return _unknown_key(path, raw, keys)
        case "value_error" if isinstance(context.get("error"), InvalidValue):
            refused = context["error"]
            return BrokenRule(path, refused.rule, refused.remedy)
        case "literal_error":
            return _unknown_word(path, error["input"], str(context["expected"]))
        case "string_pattern_mismatch":
            return BrokenRule(path, f"the text does not match {context['pattern']}", _pattern_remedy(str(path[-1])))
        case "greater_than_equal" | "greater_than" | "less_than_equal" | "less_than":
            word, bound = next((key, value) for key, value in context.items() if key in ("ge", "gt", "le", "lt"))
            phrase = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}[word]
            return BrokenRule(path, f"the number is {phrase} {bound:g}")
        case "tuple_type" if path in (("load",), ("fault",), ("check",)):
            return BrokenRule(path, "a list of tables is wanted here", f"write [[{path[0]}]]", on_key=True)
    rule = _RULES.get(kind, error["msg"])
    wants_quotes = kind == "string_type" and isinstance(error["input"], int | float)
    return BrokenRule(path, rule, f'write "{error["input"]}"' if wants_quotes else "")


def _path(loc: tuple[str | int, ...], raw: object, kind: str) -> Path:
    """The location without pydantic's tags: the steps that exist in the file, and a missing last key."""
    path: list[str | int] = []
    here = raw
    for index, step in enumerate(loc):
        if (isinstance(here, dict) and step in here) or (
            isinstance(here, list | tuple) and isinstance(step, int) and step < len(here)
        ):
            path.append(step)
            here = here[step]  # type: ignore[index]
        elif kind == "missing" and index == len(loc) - 1:
            path.append(step)
    return tuple(path)


def _at(raw: Any, path: Path) -> object:
    for step in path:
        raw = raw[step]
    return raw


def _unknown_key(path: Path, raw: object, keys: Mapping[int, tuple[str, ...]]) -> BrokenRule:
    known = keys.get(id(_at(raw, path[:-1])), ())
    close = difflib.get_close_matches(str(path[-1]), known, 1, 0.6)
    if close:
        return BrokenRule(
            path, f'unknown key "{path[-1]}"', f'did you mean "{close[0]}"?', (), True, instead=(*path[:-1], close[0])
        )
    return BrokenRule(path, f'unknown key "{path[-1]}"', f"known: {', '.join(known)}", on_key=True)


def _unknown_word(path: Path, given: object, expected: str) -> BrokenRule:
    words = re.findall(r"'([^']*)'", expected)
    close = difflib.get_close_matches(str(given), words, 1, 0.6)
    if not words:
        return BrokenRule(path, f"the only value is {expected}", f"write {path[-1]} = {expected}")
    listed = ", ".join(f'"{word}"' for word in words)
    if close:
        return BrokenRule(path, f"one of {listed}", f'did you mean "{close[0]}"?')
    return BrokenRule(path, f"one of {listed}", f'write "{words[0]}"')


def _pattern_remedy(key: str) -> str:
    match key:
        case "id":
            return "start with a letter; then letters, digits, _ or -"
        case "name":
            return "use small letters, digits, . _ or -"
        case "after":
            return 'write it such as "oom.healed"'
    return ""
