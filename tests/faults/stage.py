"""A injector with a clock that stands still, points of three kinds, and everything it tells kept in lists."""

import threading
from collections.abc import Callable
from typing import Any

from faults import Catalogue, Effect, Faults, FaultSpec, FaultState, Fire, Point, Scope, When, actions, parse_do
from faults.points import shows

SECOND_NS = 1_000_000_000


class OutOfBlocks(Exception):
    pass


class LaunchError(Exception):
    pass


TAKE = Point(
    name="kv.take",
    layer="memory",
    breaks="taking blocks fails as if the pool were empty; the pool is untouched",
    actions=(
        actions.fail("oom", OutOfBlocks, symptom="mark:kv.out_of_blocks", placements=("before", "after")),
        actions.drop(placements=("before", "after", "in_flight")),
    ),
    scope=(shows("group", "phase"),),
)
LAUNCH = Point(
    name="device.launch",
    layer="device",
    breaks="a launch fails, is late, or never completes; what was launched before is untouched",
    actions=(
        actions.fail("error", LaunchError),
        actions.hang(placements=("before", "in_flight")),
        actions.delay(),
        actions.corrupt("nan", "bit_flip"),
        actions.lie(),
        actions.kill(),
    ),
    scope=(shows("group"),),
)
STREAM = Point(
    name="server.stream",
    layer="server",
    breaks="a reply ends in the middle; the request itself goes on",
    actions=(actions.cut(symptom="outcome:truncated"),),
)


def catalogue() -> Catalogue:
    return Catalogue((TAKE, LAUNCH, STREAM), ["swap.out"])


class Clock:
    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def go(self, seconds: float) -> int:
        self.now_ns += round(seconds * SECOND_NS)
        return self.now_ns


class Stage:
    """`waits` notes each wait that an effect asked for; a wait passes at once unless `waiter` is given."""

    def __init__(
        self,
        heartbeat_s: float | None = None,
        waiter: Callable[[threading.Event, float], bool] | None = None,
        on_fire: Callable[[Fire], None] | None = None,
    ) -> None:
        self.clock = Clock()
        self.fires: list[Fire] = []
        self.told: list[FaultState] = []
        self.waits: list[float] = []
        self.faults = Faults(
            catalogue(), self.clock, on_fire or self.fires.append, self.told.append, heartbeat_s, waiter or self._pass
        )

    def cross(self, point: Point, **crossing: Any) -> Effect | str | None:
        """What came of it: the name of the error, the effect, or None."""
        shown = dict.fromkeys(point.attributes)
        try:
            return self.faults.fire(point, **{**shown, **crossing})
        except (OutOfBlocks, LaunchError) as error:
            return type(error).__name__

    def tick(self, after_s: float = 0.0) -> None:
        self.faults.tick(self.clock.go(after_s))

    def state(self, fault: str = "f", n: int = 0) -> FaultState:
        (state,) = [state for state in self.faults.states() if (state.id, state.n) == (fault, n)]
        return state

    def story(self, fault: str = "f") -> list[str]:
        """The states that were told of a fault, in order."""
        return [state.state for state in self.told if state.id == fault]

    def _pass(self, event: threading.Event, seconds: float) -> bool:
        self.waits.append(seconds)
        self.clock.go(seconds)
        return event.is_set()


def spec(do: str, id: str = "f", n: int = 0, scope: Scope | None = None, **fields: Any) -> FaultSpec:
    """A spec in one line; keys of When go to `when`."""
    when = When(**{name: fields.pop(name) for name in When.__dataclass_fields__ if name in fields})
    return FaultSpec(id=id, n=n, do=parse_do(do), when=when, scope=scope or Scope(), **fields)
