"""Fault points and their actions: a layer declares them, a scenario names them.

How to add a point, in the layer that owns it:

1. Declare it in `runtime/<layer>/points.py` (no torch, no clock), and describe the damage and its limits:

       TAKE = Point(
           name="kv.take", layer="memory", scope=(shows("group", pool=("kv",), phase=PHASES),),
           breaks="taking blocks fails as if the pool were empty; the pool itself is untouched",
           actions=(actions.fail("oom", OutOfBlocks, symptom="mark:kv.out_of_blocks"),))

2. In the code, cross it once for each placement that its actions name: before any change (`before`), after the work
   is done (`after`), or while the work is running (`in_flight`):

       if faults.armed:
           faults.fire(TAKE, request=request_id, size_bytes=n * block_bytes, group=group, pool="kv", phase=phase)

   `fire` raises the error of an action itself. For the other kinds it returns an Effect, and the crossing code carries
   out `effect.kind`. It must not ignore a kind: the fault would count as fired without damage.
   Skip, interval, space and probability count per `key`. If one thread crosses the point, omit the key, so that all
   crossings are counted together (`request=` still names the victim). If several threads do, pass a key that
   distinguishes them, or hits depend on their order.

3. Add it to the catalogue (`runtime/points.py`), fire it in a test of the layer, and record its symptom in code that
   does not know the injector. The symptom is the second evidence of the fault.

A point on a path that returns resources (free, close, teardown) must not have a `raise` placed before, because the
caller could only leak. Place it `after`, or use drop or delay.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from faults.spec import ACTION_NAME, PLACES, POINT_NAME, SCOPE_NAMES, did_you_mean

ARGUMENTS = ("", "duration", "duration?", "word", "word?", "number", "number?")

Shown = Mapping[str, tuple[str, ...]]
"""Attributes that one kind of crossing passes for a fault's scope, with their possible values (none: any value)."""


def shows(*attributes: str, **values: tuple[str, ...]) -> Shown:
    """`shows("group", pool=("kv",))`: every crossing passes any group, and pool = "kv"."""
    return {**dict.fromkeys(attributes, ()), **values}


class Severity(StrEnum):
    """The duty of the runtime after the fault."""

    RECOVERABLE = "recoverable"  # continue at once
    AFTER_CLEANUP = "after_cleanup"  # continue after affected state is discarded
    FATAL = "fatal"  # no request of this process may succeed


class Kind(StrEnum):
    """The kind of damage. The crossing code carries it out, except RAISE, which `fire` does."""

    RAISE = "raise"
    DELAY = "delay"  # wait, then continue normally
    HANG = "hang"  # wait until released
    DROP = "drop"  # leave the work undone without an error
    CORRUPT = "corrupt"  # damage the data as the argument says
    LIE = "lie"  # return a false value
    KILL = "kill"  # end this process as kill -9 does
    CUT = "cut"  # end the connection or stream in the middle


@dataclass(frozen=True, slots=True)
class Action:
    """One way in which a point can fail. `symptom` is the evidence that code without the injector must record, such as
    "mark:kv.out_of_blocks", "outcome:truncated" or "audit:leak"."""

    name: str
    kind: Kind
    argument: str = ""  # one of ARGUMENTS; "?" means that it is optional
    error: type[Exception] | None = None  # for RAISE only; made from one message
    severity: Severity = Severity.RECOVERABLE
    placements: tuple[str, ...] = ("before",)
    symptom: str = ""
    words: tuple[str, ...] = ()  # permitted values of a "word" argument; none: any value

    def __post_init__(self) -> None:
        name = f'action "{self.name}"'
        if not ACTION_NAME.fullmatch(self.name):
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
    """A place in the code of a layer where a fault can be injected. Only that layer crosses it."""

    name: str
    layer: str
    breaks: str  # one sentence: the damage and its limits
    actions: tuple[Action, ...]
    scope: tuple[Shown, ...] = ()  # attributes passed, one entry for each kind of crossing

    def __post_init__(self) -> None:
        if not POINT_NAME.fullmatch(self.name):
            raise ValueError(f'point "{self.name}": give lower-case names joined by dots, e.g. "kv.take"')
        if not self.actions or not self.breaks:
            raise ValueError(f'point "{self.name}": needs at least one action, and a sentence saying what it breaks')
        names = [action.name for action in self.actions]
        if len(set(names)) != len(names):
            raise ValueError(f'point "{self.name}": two actions of one name in {names}; rename one')
        if unknown := set(self.attributes) - set(SCOPE_NAMES):
            known = ", ".join(SCOPE_NAMES)
            raise ValueError(f'point "{self.name}": scope {sorted(unknown)} unknown; choose one of {known}')

    @property
    def attributes(self) -> tuple[str, ...]:
        """All attributes that any crossing passes."""
        return tuple(dict.fromkeys(name for shown in self.scope for name in shown))

    def action(self, name: str) -> Action:
        """Return the action with this name. Errors: UnknownName with the nearest name."""
        for action in self.actions:
            if action.name == name:
                return action
        near = did_you_mean(name, [action.name for action in self.actions])
        raise UnknownName(f'point "{self.name}" has no action "{name}"; {near}')


class UnknownName(LookupError):
    """A point or action does not exist; the text has the nearest name."""


class Catalogue:
    """All points that exist, and the names of planned ones."""

    def __init__(self, points: Iterable[Point] = (), planned: Iterable[str] = ()) -> None:
        """Errors: ValueError when two points have one name."""
        self._points: dict[str, Point] = {}
        for point in points:
            taken = self._points.setdefault(point.name, point)
            if taken is not point:
                raise ValueError(f'point "{point.name}" is declared by {taken.layer} and {point.layer}; rename one')
        self._planned = frozenset(planned) - self._points.keys()

    def get(self, name: str) -> Point:
        """Return the point with this name. Errors: UnknownName that says whether it is planned, or the nearest name."""
        point = self._points.get(name)
        if point is not None:
            return point
        if name in self._planned:
            raise UnknownName(f'point "{name}" is planned and not served yet; choose one of {", ".join(self.names())}')
        raise UnknownName(f'no point "{name}"; {did_you_mean(name, self._points)}')

    def names(self) -> tuple[str, ...]:
        """Return the names of all points, sorted."""
        return tuple(sorted(self._points))

    def planned_names(self) -> tuple[str, ...]:
        """Return the names of planned points, sorted. They exist only to get an error message of their own."""
        return tuple(sorted(self._planned))


def _refuse_error_without_message(name: str, error: type[Exception]) -> None:
    # Checked at the declaration, because in a trial it would look like a bug of the runtime.
    try:
        error("probe")
    except TypeError as cause:
        raise ValueError(
            f"{name}: {error.__name__} can't be made from one message ({cause}); give it defaults"
        ) from cause
