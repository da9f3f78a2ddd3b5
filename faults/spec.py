"""The specification of a fault, and the `do` line of text that names its point, action and argument.

    do       = point ":" action [argument]
    point    = name "." name {"." name}             kv.take   device.copy.h2d
    action   = name                                 oom   hang   corrupt
    argument = duration | number | name             20s   0.5   nan
    duration = digits ["." digits] ("ms" | "s" | "m" | "h")

    "kv.take: oom"     "device.launch: hang 20s"     "device.copy.h2d: corrupt bit_flip"     "server.stream: cut"

This file imports no other file of seatrial, because scenarios may import it and no other part of `faults`.
`faults.resolve` checks a specification against the points and actions that exist.
"""

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from types import NoneType
from typing import Any, get_args

PLACES = ("before", "after", "in_flight")
PHASES = ("prefill", "decode")
DEFAULT_GROUP = "default"  # the group of a request that names none: in scopes, in the history, in metrics
LOAD_HEADER = "X-Seatrial-Load"  # the HTTP header that names the load of a request
DURATION_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
LIFETIME_BEYOND_FOR_S = 60.0
LISTED_MAX = 12  # known words that a message lists where none is near

_NAME = r"[a-z][a-z0-9_]*"
POINT_NAME = re.compile(rf"{_NAME}(\.{_NAME})+")
ACTION_NAME = re.compile(_NAME)
FAULT_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_ARGUMENT = re.compile(r"[A-Za-z0-9_.+-]+")
_DURATION = re.compile(rf"([0-9]+(?:\.[0-9]+)?)({'|'.join(DURATION_UNITS_S)})")
_AFTER = re.compile(rf"({FAULT_ID.pattern})\.(fired|healed)")
_DO_HELP = 'write "point: action [argument]", e.g. "device.launch: hang 20s"'


class SpecError(ValueError):
    """A fault specification is wrong. `problems` holds every problem; the text has one on each line."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        assert self.problems, "a SpecError needs at least one problem"
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class Do:
    """One parsed `do` line. `argument` is the text as written, None without one. `str()` gives the line."""

    point: str
    action: str
    argument: str | None = None

    def __str__(self) -> str:
        return f"{self.point}: {self.action}" + (f" {self.argument}" if self.argument is not None else "")


def parse_do(text: str) -> Do:
    """Parse one `do` line. Errors: SpecError with the given text, the allowed form and the remedy."""
    given = f'do = "{text}"'
    point, colon, rest = text.partition(":")
    if not colon:
        raise SpecError([f'{given}: no ":" between point and action; {_DO_HELP}'])
    point, words = point.strip(), rest.split()
    problems = []
    if not POINT_NAME.fullmatch(point):
        problems.append(f'{given}: "{point}" is no point name (lower-case names joined by dots); {_DO_HELP}')
    if not words:
        problems.append(f'{given}: no action after ":"; {_DO_HELP}')
    elif not ACTION_NAME.fullmatch(words[0]):
        problems.append(f'{given}: "{words[0]}" is no action name (lower-case letters, digits, _); {_DO_HELP}')
    if len(words) > 2:
        joined = " ".join(words[1:])
        problems.append(f'{given}: "{joined}" is more than one argument; write a unit without a space, e.g. "20s"')
    elif len(words) == 2 and not _ARGUMENT.fullmatch(words[1]):
        problems.append(f'{given}: "{words[1]}" is no argument (a duration, a number or a name); {_DO_HELP}')
    if problems:
        raise SpecError(problems)
    return Do(point, words[0], words[1] if len(words) == 2 else None)


def parse_duration_s(text: str) -> float:
    """Return the seconds of a duration: "250ms" -> 0.25. Errors: SpecError that names the allowed units."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise SpecError(
            [f'"{text}" is no duration; write a number with one of {" ".join(DURATION_UNITS_S)}, e.g. "20s"']
        )
    return float(match[1]) * DURATION_UNITS_S[match[2]]


@dataclass(frozen=True, slots=True)
class When:
    """The trigger. `at_s` and `every_s` are times of arming, for the fault scheduler; the injector applies the rest.

    Hits are crossings that match time, scope and place. Counted per key: the first `skip` hits pass, then each
    `interval`-th may fire, after crossings of `space_bytes`, with `probability`. Counted per fault: `times` fires.
    """

    at_s: float | None = None
    after: str | None = None  # "<fault id>.fired" or "<fault id>.healed"
    every_s: float | None = None
    for_s: float | None = None  # counts from the first fire, because a load can be silent for minutes after arming
    skip: int = 0
    times: int | None = 1  # None: no limit
    interval: int = 1
    probability: float = 1.0
    space_bytes: int = 0

    def __post_init__(self) -> None:
        _refuse(
            _wrong(self.at_s is None or self.at_s >= 0, "at_s", self.at_s, "0 or more"),
            _wrong(self.every_s is None or self.every_s > 0, "every_s", self.every_s, "more than 0"),
            _wrong(self.for_s is None or self.for_s > 0, "for_s", self.for_s, "more than 0"),
            _wrong(self.skip >= 0, "skip", self.skip, "0 or more"),
            _wrong(self.times is None or self.times >= 1, "times", self.times, "1 or more, or null for no limit"),
            _wrong(self.interval >= 1, "interval", self.interval, "1 or more"),
            _wrong(0 < self.probability <= 1, "probability", self.probability, "more than 0 and at most 1"),
            _wrong(self.space_bytes >= 0, "space_bytes", self.space_bytes, "0 or more"),
            _wrong(
                self.after is None or bool(_AFTER.fullmatch(self.after)),
                "after",
                self.after,
                '"<fault id>.fired" or "<fault id>.healed"',
            ),
            None
            if self.after is None or (self.at_s is None and self.every_s is None)
            else "after: can't be joined with at or every, both say when to arm; keep one of them",
        )

    def awaited(self) -> tuple[str, str] | None:
        """Return the (fault id, "fired" | "healed") that `after` waits for."""
        match = _AFTER.fullmatch(self.after) if self.after else None
        return (match[1], match[2]) if match else None


@dataclass(frozen=True, slots=True)
class Scope:
    """The attributes of the crossings that count, by exact value. None matches any value."""

    group: str | None = None
    session: str | None = None
    pool: str | None = None
    phase: str | None = None
    graph: str | None = None
    load: str | None = None

    def wanted(self) -> tuple[tuple[str, str], ...]:
        """Return the (attribute, value) pairs that a crossing must have."""
        return tuple((name, value) for name in SCOPE_NAMES if (value := getattr(self, name)) is not None)


SCOPE_NAMES = tuple(each.name for each in fields(Scope))


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """One occurrence of one fault: action, trigger, scope and longest duration. Errors: SpecError."""

    id: str
    n: int  # number of the occurrence; `every` makes 0, 1, 2, ...
    do: Do
    place: str = "before"
    when: When = field(default_factory=When)
    scope: Scope = field(default_factory=Scope)
    persist: bool = False  # True: after the first fire every matching crossing fires until healed
    fired_min: int = 1
    ttl_s: float | None = None  # None: `for` + 60 s; see max_lifetime_s
    seed: int = 0

    def __post_init__(self) -> None:
        unreachable = self.when.times is not None and not self.persist and self.fired_min > self.when.times
        _refuse(
            _wrong(bool(FAULT_ID.fullmatch(self.id)), "id", self.id, "a letter, then letters, digits, _ or -"),
            _wrong(self.n >= 0, "n", self.n, "0 or more"),
            _wrong(self.place in PLACES, "place", self.place, " or ".join(f'"{place}"' for place in PLACES)),
            _wrong(self.fired_min >= 0, "fired_min", self.fired_min, "0 or more"),
            _wrong(self.ttl_s is None or self.ttl_s > 0, "ttl_s", self.ttl_s, "more than 0"),
            f"fired_min: {self.fired_min} is out of reach with times = {self.when.times}; raise times"
            if unreachable
            else None,
            f"when.after: {self.when.after} waits for itself; name another fault"
            if (awaited := self.when.awaited()) and awaited[0] == self.id
            else None,
        )

    @property
    def max_lifetime_s(self) -> float:
        """Longest time (s) from the first fire until the fault is healed, even if the harness is gone."""
        return self.ttl_s if self.ttl_s is not None else (self.when.for_s or 0.0) + LIFETIME_BEYOND_FOR_S

    @property
    def label(self) -> str:
        return f"{self.id}/{self.n}"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, from which `from_json` makes an equal spec."""
        return {**asdict(self), "do": str(self.do)}

    @classmethod
    def from_json(cls, raw: object) -> "FaultSpec":
        """Make a spec from JSON values. Keys with a default may be absent. Errors: SpecError with all problems."""
        problems: list[str] = []
        known = _known_values(cls, raw, "", problems)
        for name, table in (("when", When), ("scope", Scope)):
            if name in known:
                known[name] = _made(
                    table, _known_values(table, known[name], f"{name}.", problems), f"{name}.", problems
                )
        if "do" in known:
            known["do"] = _parsed_do(known["do"], problems)
        # A wrong part is replaced by a valid one, so that checks across parts still report other problems.
        valid = {"id": "unnamed", "n": 0, "do": Do("stand.in", "none")}
        spec = _made(cls, {**valid, **{k: v for k, v in known.items() if v is not None}}, "", problems)
        if problems or spec is None:
            raise SpecError(problems)
        assert isinstance(spec, cls)
        return spec


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return 'did you mean "kv.take"?', or the known words, or their number, when none is near."""
    options = sorted(known)
    near = difflib.get_close_matches(word, options, n=1)
    if near:
        return f'did you mean "{near[0]}"?'
    return f"known: {', '.join(options)}" if 0 < len(options) <= LISTED_MAX else f"{len(options) or 'none'} are known"


def _wrong(right: bool, name: str, given: object, allowed: str) -> str | None:
    shown = f'"{given}"' if isinstance(given, str) else given
    return None if right else f"{name}: {shown} is not allowed; give {allowed}"


def _refuse(*problems: str | None) -> None:
    found = [problem for problem in problems if problem]
    if found:
        raise SpecError(found)


_JSON_TYPES: dict[object, tuple[type | tuple[type, ...], str]] = {
    str: (str, "a string"),
    int: (int, "a whole number"),
    bool: (bool, "true or false"),
    float: ((int, float), "a finite number"),
    NoneType: (NoneType, "null"),
    Do: (str, "a string"),
    When: (Mapping, "a table"),
    Scope: (Mapping, "a table"),
}
"""The JSON type of each type that a field of a specification can have, and its name in a message."""


def _fits(value: object, wanted: object) -> bool:
    if isinstance(value, bool) and wanted is not bool:
        return False
    return isinstance(value, _JSON_TYPES[wanted][0]) and (wanted is not float or math.isfinite(value))  # type: ignore[arg-type]


def _known_values(table: type[Any], raw: object, path: str, problems: list[str]) -> dict[str, Any]:
    """Return the values of `raw` whose key and type are right, and append the problems of the others."""
    if not isinstance(raw, Mapping):
        problems.append(f"{path.rstrip('.') or 'fault'}: {raw!r} is not a table; give the fields of a {table.__name__}")
        return {}
    types = {each.name: each.type for each in fields(table)}
    values: dict[str, Any] = {}
    for key, value in raw.items():
        if key not in types:
            problems.append(f"{path}{key}: unknown key; {did_you_mean(str(key), types)}")
            continue
        wanted = get_args(types[key]) or (types[key],)
        if any(_fits(value, each) for each in wanted):
            values[key] = value
        else:
            names = " or ".join(_JSON_TYPES[each][1] for each in wanted)
            problems.append(f"{path}{key}: {value!r} has the wrong type; give {names}")
    if table is FaultSpec:
        problems.extend(f"{key}: is missing; give it" for key in ("id", "n", "do") if key not in raw)
    return values


def _made(table: type[Any], values: dict[str, Any], path: str, problems: list[str]) -> object | None:
    try:
        return table(**values)  # type: ignore[no-any-return]
    except SpecError as error:
        problems.extend(f"{path}{problem}" for problem in error.problems)
        return None


def _parsed_do(text: str, problems: list[str]) -> Do | None:
    try:
        return parse_do(text)
    except SpecError as error:
        problems.extend(error.problems)
        return None
