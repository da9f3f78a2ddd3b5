"""One occurrence of one fault: its states from arming to the end.

    setup          inject                propagate       recover             recovered         clean up
    SETUP --arm--> ARMED --first fire--> FIRED --heal--> HEALING --let go--> HEALED --clean--> CLEANED
      |              |                                      ^                   ^
      |              +---- heal, nothing ever fired --------+                   |
      +---- heal before its turn came ------------------------------------------+
    any of them but CLEANED --error--> INVALID --clean--> CLEANED      nothing else leaves INVALID

HEALING: no crossing fires any more, but an effect is still out (a hang that was promised 20 s). It is over when the
last effect is. Healing by `times` waits for that; every other healing releases the effects at once.
"""

from enum import StrEnum

from faults.effects import Effect
from faults.evidence import FaultState
from faults.resolve import Resolved
from faults.spec import FaultSpec
from faults.trigger import Trigger


class State(StrEnum):
    SETUP = "setup"  # known, waits for `after`
    ARMED = "armed"  # the next matching hit may fire
    FIRED = "fired"  # has fired, may fire again
    HEALING = "healing"
    HEALED = "healed"
    INVALID = "invalid"  # the injector itself broke: nothing may be concluded from this fault
    CLEANED = "cleaned"


NEXT = {
    State.SETUP: {State.ARMED, State.HEALED, State.INVALID},
    State.ARMED: {State.FIRED, State.HEALING, State.INVALID},
    State.FIRED: {State.HEALING, State.INVALID},
    State.HEALING: {State.HEALED, State.INVALID},
    State.HEALED: {State.CLEANED, State.INVALID},
    State.INVALID: {State.CLEANED},
    State.CLEANED: set(),
}
CAN_FIRE = (State.ARMED, State.FIRED)
OVER = (State.HEALED, State.INVALID, State.CLEANED)


class FaultInstance:
    """State, stamps and open effects of one fault. Not thread safe: the injector calls it under its lock."""

    def __init__(self, resolved: Resolved) -> None:
        self.resolved = resolved
        self.spec: FaultSpec = resolved.spec
        self.wanted = resolved.spec.scope.wanted()
        self.trigger = Trigger(resolved.spec)
        self.state = State.SETUP
        self.arm_ns: int | None = None
        self.first_ns: int | None = None
        self.heal_ns: int | None = None
        self.healed_by: str | None = None
        self.error: str | None = None
        self.effects: list[Effect] = []

    def arm(self, now_ns: int) -> None:
        self._move(State.ARMED)
        self.arm_ns = now_ns

    def note_fire(self, now_ns: int) -> bool:
        """Count a fire; True when it is the first, which opens `for` and ttl."""
        self.trigger.fired += 1
        first = self.state is State.ARMED
        if first:
            self._move(State.FIRED)
            self.first_ns = now_ns
        return first

    def ended_by(self, now_ns: int) -> str | None:
        """ "for" or "ttl" when that has run out; both count from the first fire."""
        for name, end_ns in (("for", self._for_end_ns()), ("ttl", self._lifetime_end_ns())):
            if end_ns is not None and now_ns >= end_ns:
                return name
        return None

    def effect_due_ns(self, start_ns: int) -> int:
        """When an effect that starts now is over at the latest: as promised, and inside `for` and the net."""
        seconds = self.resolved.seconds
        ends = (
            start_ns + to_ns(seconds) if seconds is not None else None,
            self._for_end_ns(),
            self._lifetime_end_ns(),
        )
        return min(end_ns for end_ns in ends if end_ns is not None)

    def begin_healing(self, by: str) -> None:
        """No more fires. `by` is overwritten while an effect is still out: who let it go last has healed it."""
        self.healed_by = by
        if self.state in CAN_FIRE:
            self._move(State.HEALING)

    def finish_healing(self, now_ns: int) -> list[Effect]:
        """Over; gives the effects that are still out, for the caller to release outside its lock."""
        self._move(State.HEALED)
        self.heal_ns = now_ns
        return self._let_go()

    def invalidate(self, error: str) -> list[Effect]:
        """The injector broke; the first error stays. Gives the effects that are still out."""
        if self.state is not State.INVALID:
            self._move(State.INVALID)
            self.error = error
        return self._let_go()

    def clean(self) -> None:
        self._move(State.CLEANED)

    def seen(self) -> FaultState:
        return FaultState(
            id=self.spec.id,
            n=self.spec.n,
            spec=self.spec,
            arm_ns=self.arm_ns,
            first_ns=self.first_ns,
            heal_ns=self.heal_ns,
            healed_by=self.healed_by,
            hits=self.trigger.hits,
            fired=self.trigger.fired,
            state=self.state.value,
            error=self.error,
        )

    def _move(self, to: State) -> None:
        assert to in NEXT[self.state], f"fault {self.spec.label} can't go from {self.state} to {to}"
        self.state = to

    def _for_end_ns(self) -> int | None:
        for_s = self.spec.when.for_s
        return None if self.first_ns is None or for_s is None else self.first_ns + to_ns(for_s)

    def _lifetime_end_ns(self) -> int | None:
        return None if self.first_ns is None else self.first_ns + to_ns(self.spec.max_lifetime_s)

    def _let_go(self) -> list[Effect]:
        self.trigger.forget_keys()
        effects, self.effects = self.effects, []
        return effects


def to_ns(seconds: float) -> int:
    return round(seconds * 1e9)
