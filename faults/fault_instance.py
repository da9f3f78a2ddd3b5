"""One occurrence of one fault: its states from arming to the end.

    setup          inject                propagate       recover             recovered         clean up
    SETUP --arm--> ARMED --first fire--> FIRED --heal--> HEALING --finish--> HEALED --clean--> CLEANED
      |              |                                      ^                   ^
      |              +---- heal before any fire ------------+                   |
      +---- heal before arming -------------------------------------------------+
    any state but CLEANED --error--> INVALID --clean--> CLEANED

HEALING: crossings do not fire any more, but an effect is still active (for example a hang of 20 s). The state ends with
the last effect. Healing by `times` waits for that; all other healing releases the effects at once.
"""

from enum import StrEnum

from faults.effects import Effect
from faults.evidence import FaultState
from faults.resolve import Resolved
from faults.spec import FaultSpec
from faults.trigger import Trigger


class State(StrEnum):
    SETUP = "setup"  # waits for `after`
    ARMED = "armed"  # the next matching hit may fire
    FIRED = "fired"  # has fired, may fire again
    HEALING = "healing"
    HEALED = "healed"
    INVALID = "invalid"  # the injector failed, so the fault proves nothing
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
    """State, time stamps and active effects of one fault. Not thread safe: the injector holds its lock."""

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
        """Count a fire. Returns True when it is the first, from which `for` and ttl count."""
        self.trigger.fired += 1
        first = self.state is State.ARMED
        if first:
            self._move(State.FIRED)
            self.first_ns = now_ns
        return first

    def ended_by(self, now_ns: int) -> str | None:
        """Return "for" or "ttl" when that time is over at `now_ns`, else None. Both count from the first fire."""
        for name, end_ns in (("for", self._for_end_ns()), ("ttl", self._lifetime_end_ns())):
            if end_ns is not None and now_ns >= end_ns:
                return name
        return None

    def effect_due_ns(self, start_ns: int) -> int:
        """Latest end (ns) of an effect that starts at `start_ns`: its duration, limited by `for` and the lifetime."""
        seconds = self.resolved.seconds
        ends = (
            start_ns + to_ns(seconds) if seconds is not None else None,
            self._for_end_ns(),
            self._lifetime_end_ns(),
        )
        return min(end_ns for end_ns in ends if end_ns is not None)

    def begin_healing(self, by: str) -> None:
        """Allow no more fires. A later reason `by` replaces an earlier one while an effect is still active."""
        self.healed_by = by
        if self.state in CAN_FIRE:
            self._move(State.HEALING)

    def finish_healing(self, now_ns: int) -> list[Effect]:
        """End the fault. Returns the active effects, which the caller releases without its lock."""
        self._move(State.HEALED)
        self.heal_ns = now_ns
        return self._take_effects()

    def invalidate(self, error: str) -> list[Effect]:
        """Note that the injector failed; the first error stays. Returns the active effects, to release."""
        if self.state is not State.INVALID:
            self._move(State.INVALID)
            self.error = error
        return self._take_effects()

    def clean(self) -> None:
        self._move(State.CLEANED)

    def to_state(self) -> FaultState:
        """Return the present state as evidence."""
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

    def _take_effects(self) -> list[Effect]:
        self.trigger.forget_keys()
        effects, self.effects = self.effects, []
        return effects


def to_ns(seconds: float) -> int:
    return round(seconds * 1e9)
