"""A replacement of Faults for a runtime without fault injection."""

from collections.abc import Sequence

from faults.effects import Effect
from faults.evidence import FaultState
from faults.points import Point, UnknownName
from faults.spec import FaultSpec, SpecError


class DisabledFaults:
    """The interface of Faults; nothing ever fires, and arming is refused."""

    def __init__(self) -> None:
        self.armed = False  # an instance attribute, as in Faults: reading a class attribute is three times slower

    def fire(
        self,
        point: Point,
        *,
        key: str = "",
        size_bytes: int = 0,
        place: str = "before",
        step: int | None = None,
        request: str | None = None,
        group: str | None = None,
        **attrs: str | int | None,
    ) -> Effect | None:
        return None

    def arm(self, specs: Sequence[FaultSpec]) -> None:
        """Errors: always SpecError."""
        raise SpecError(["faults are not compiled in; build the runtime with Faults to arm any"])

    def heal(self, fault: str, by: str, n: int | None = None) -> int:
        """Errors: always UnknownName, because no fault was armed."""
        raise UnknownName(f'no fault "{fault}" is armed: faults are not compiled in')

    def heal_all(self, by: str) -> int:
        return 0

    def clean(self) -> None:
        return None

    def beat(self) -> None:
        return None

    def tick(self, now_ns: int) -> None:
        return None

    def states(self) -> list[FaultState]:
        return []
