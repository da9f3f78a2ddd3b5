"""Where something can break, and how: the words that a layer declares and a scenario uses.

How to add a point, in the layer that owns it:

1. In `runtime/<layer>/points.py` (no torch, no clock) say what it breaks and what it leaves whole:

       TAKE = Point(
           name="kv.take", layer="memory", scope=(shows("group", pool=("kv",), phase=PHASES),),
           breaks="taking blocks fails as if the pool were empty; the pool itself is untouched",
           actions=(actions.fail("oom", OutOfBlocks, symptom="mark:kv.out_of_blocks"),))

2. In the code, cross it once for each placement that its actions name, where nothing has been changed yet
   (`before`), where all is done (`after`), or where the work is on its way (`in_flight`):

       if faults.armed:
           faults.fire(TAKE, request=request_id, size_bytes=n * block_bytes, group=group, pool="kv", phase=phase)

   A `raise` leaves by itself. For the other kinds `fire` returns an Effect and the crossing code does what
   `effect.kind` says; nothing may be ignored, or an armed fault would count as fired and break nothing.
   Skip, interval, space and chance count per `key`. Does one thread cross it? Leave the key out, so that they count all
   crossings (`request=` still names the victim). Do several? Pass what tells them apart, or hits depend on order.

3. Add it to the catalogue (`runtime/points.py`), fire it in a test of the layer, and let a part that does not know the
   injector show the symptom: that is the second half of the evidence.

Never put a point on a path that gives things back (free, close, teardown) with a `raise` placed before: the caller
could only leak. Place it `after`, or let it drop or delay.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from faults.spec import ACTION_WORD, PLACES, POINT_NAME, SCOPE_NAMES, did_you_mean

ARGUMENTS = ("", "duration", "duration?", "word", "word?", "number", "number?")

Shown = Mapping[str, tuple[str, ...]]
"""Attributes that one kind of crossing shows to a fault's scope, with the values that each can have (none: any)."""


def shows(*attributes: str, **values: tuple[str, ...]) -> Shown:
    """`shows("group", pool=("kv",))`: every crossing passes its group, which can be any, and pool = "kv"."""
    return {**dict.fromkeys(attributes, ()), **values}


class Severity(StrEnum):
    """The duty of the runtime after the fault."""

    RECOVERABLE = "recoverable"  # go on at once
    AFTER_CLEANUP = "after_cleanup"  # go on once what was touched is thrown away
    FATAL = "fatal"  # no request may end well in this process


class Kind(StrEnum):
    """The deed of the crossing code; `fire` itself does RAISE."""

    RAISE = "raise"
    DELAY = "delay"  # wait, then go on as if nothing had been
    HANG = "hang"  # wait until released
    DROP = "drop"  # leave the thing undone and say nothing
    CORRUPT = "corrupt"  # damage the data as the argument says
    LIE = "lie"  # answer with something untrue
    KILL = "kill"  # end this process without ceremony
    CUT = "cut"  # break the connection or stream off


@dataclass(frozen=True, slots=True)
class Action:
    """One way in which a point can break. `symptom` is what a part that does not know the injector must show:
    "mark:kv.out_of_blocks", "outcome:truncated" or "audit:leak"."""

    word: str
    kind: Kind
    argument: str = ""  # one of ARGUMENTS; "?" means it may be left out
    error: type[Exception] | None = None  # RAISE only: made from one message
    severity: Severity = Severity.RECOVERABLE
    placements: tuple[str, ...] = ("before",)
    symptom: str = ""
    words: tuple[str, ...] = ()  # the words that a "word" argument may be; none: any

    def __post_init__(self) -> None:
        name = f'action "{self.word}"'
        if not ACTION_WORD.fullmatch(self.word):
            raise ValueError(f"{name}: give a name of lower-case letters, digits and _")
        if self.argument not in ARGUMENTS:
            raise ValueError(f'{name}: argument "{self.argument}" is not one of {", ".join(ARGUMENTS[1:])} or ""')
        if not self.placements or set(self.placements) - set(PLACES):
            raise ValueError(f"{name}: placements {self.placements}; give one or more of {', '.join(PLACES)}")
        if (self.kind is Kind.RAISE) != (self.error is not None):
            raise ValueError(f"{name}: an error type belongs to kind RAISE, and to no other; kind is {self.kind}")
        if self.words and not self.argument.startswith("word"):
            raise ValueError(f'{name}: words are listed but argument is "{self.argument}"; make it "word"')
        if self.error is not None:
            _refuse_error_without_message(name, self.error)


@dataclass(frozen=True, slots=True)
class Point:
    """A place in a layer where something can break, named once and crossed by that layer only."""

    name: str
    layer: str
    breaks: str  # one sentence: what it breaks, what it leaves whole
    actions: tuple[Action, ...]
    scope: tuple[Shown, ...] = ()  # one for each kind of crossing: what a fault's scope can be held against

    def __post_init__(self) -> None:
        if not POINT_NAME.fullmatch(self.name):
            raise ValueError(f'point "{self.name}": give lower-case names joined by dots, e.g. "kv.take"')
        if not self.actions or not self.breaks:
            raise ValueError(f'point "{self.name}": needs at least one action, and a sentence saying what it breaks')
        words = [action.word for action in self.actions]
        if len(set(words)) != len(words):
            raise ValueError(f'point "{self.name}": two actions of one name in {words}; rename one')
        if unknown := set(self.attributes) - set(SCOPE_NAMES):
            known = ", ".join(SCOPE_NAMES)
            raise ValueError(f'point "{self.name}": scope {sorted(unknown)} unknown; choose of {known}')

    @property
    def attributes(self) -> tuple[str, ...]:
        """All attributes that some crossing passes."""
        return tuple(dict.fromkeys(name for shown in self.scope for name in shown))

    @property
    def placements(self) -> tuple[str, ...]:
        """All placements that some action of this point permits: the crossing code fires once for each."""
        return tuple(place for place in PLACES if any(place in action.placements for action in self.actions))

    def action(self, word: str) -> Action:
        """Errors: UnknownName with the nearest action of this point."""
        for action in self.actions:
            if action.word == word:
                return action
        near = did_you_mean(word, [action.word for action in self.actions])
        raise UnknownName(f'point "{self.name}" has no action "{word}"{near}')


class UnknownName(LookupError):
    """No such point or action; the text names the nearest."""


class Catalogue:
    """All points that exist, and the names of those that are only planned. One per program, filled at import."""

    def __init__(self) -> None:
        self._points: dict[str, Point] = {}
        self._planned: set[str] = set()

    def declare(self, point: Point) -> Point:
        """Add a point and return it. Errors: ValueError when the name is taken."""
        taken = self._points.get(point.name)
        if taken is not None:
            raise ValueError(f'point "{point.name}" of {point.layer} is declared already by {taken.layer}; rename one')
        self._points[point.name] = point
        return point

    def get(self, name: str) -> Point:
        """Errors: UnknownName saying whether it is planned, or which name is nearest."""
        point = self._points.get(name)
        if point is not None:
            return point
        if name in self._planned:
            raise UnknownName(f'point "{name}" is planned and not served yet; choose of {", ".join(self.names())}')
        raise UnknownName(f'no point "{name}"{did_you_mean(name, self._points)}')

    def names(self) -> tuple[str, ...]:
        """The points that exist, in order of the alphabet."""
        return tuple(sorted(self._points))

    def planned(self, names: Iterable[str]) -> None:
        """Note names that shall exist one day, so that asking for one gets an honest answer."""
        self._planned.update(names)

    def planned_names(self) -> tuple[str, ...]:
        """Planned and not declared."""
        return tuple(sorted(self._planned - self._points.keys()))


def _refuse_error_without_message(name: str, error: type[Exception]) -> None:
    # Found when declared rather than in the middle of a trial, where it would look like a bug of the runtime.
    try:
        error("probe")
    except TypeError as cause:
        raise ValueError(
            f"{name}: {error.__name__} can't be made from one message ({cause}); give it defaults"
        ) from cause
