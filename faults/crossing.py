"""One crossing of a point, as the crossing code describes it."""

from dataclasses import dataclass

from faults.points import Point


@dataclass(frozen=True, slots=True)
class Crossing:
    """The arguments of `Faults.fire`."""

    point: Point
    place: str
    key: str  # hits with equal keys are counted together
    size_bytes: int
    step: int | None
    request: str | None
    group: str | None
    shown: dict[str, str | int | None]  # every attribute that was passed, with the group

    def unshown(self, wanted: tuple[tuple[str, str], ...]) -> list[str]:
        """The wanted attributes that the crossing did not pass. None counts as passed, and matches no value."""
        return [name for name, _ in wanted if name not in self.shown]

    def matches(self, wanted: tuple[tuple[str, str], ...]) -> bool:
        """True when every wanted attribute has the wanted value."""
        shown = self.shown
        return all((found := shown.get(name)) is not None and str(found) == value for name, value in wanted)

    def describe(self) -> str:
        """Return a text such as "before key=r7 size_bytes=4096 group=batch"."""
        facts = {"key": self.key or None, "size_bytes": self.size_bytes or None, **self.shown}
        return " ".join([self.place, *(f"{name}={value}" for name, value in facts.items() if value is not None)])
