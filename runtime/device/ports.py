"""What every device of ours is given: models to run and a tag plane to check. No torch."""

from collections.abc import Sequence
from typing import Protocol

from runtime.core.work import Breach, Claim, Copy, Sampled, Work


class StepModel(Protocol):
    """What a device runs. Called from one thread, one work at a time."""

    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        """Compute and sample; K and V of its tokens are written afterwards. May be repeated with the same work."""
        ...


class Mover(Protocol):
    """Moves KV, tags included, between a request's blocks and its bytes on the host. Called as a StepModel is."""

    @property
    def block_bytes(self) -> int:
        """What one block takes on the host."""
        ...

    def move(self, copy: Copy) -> None:
        """The whole copy, at once."""
        ...


class Tags(Protocol):
    """The part of the tag plane that a device uses (runtime.memory.kv.tags.TagPlane)."""

    def verify(self, work: Work, reads: Sequence[Claim]) -> tuple[Breach, ...]:
        """Blocks that do not hold what their readers claim."""
        ...

    def stamp(self, work: Work) -> None:
        """Write this launch's tags through its own slots."""
        ...
