"""The ports of a device: the model that it runs, the mover of KV, and the tag plane that it checks. No torch."""

from typing import Protocol

from runtime.core.work import Breach, Claims, Copy, Sampled, Work


class StepModel(Protocol):
    """A model that a device runs. It is called from one thread, with one launch at a time."""

    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        """Compute a launch, write K and V of its tokens, and return the samples [rows], None for rows without sampling.
        A repeated call with equal work gives equal results."""
        ...


class Mover(Protocol):
    """Copies KV and tags between a request's blocks and its bytes on the host, on the thread of the model."""

    @property
    def block_bytes(self) -> int:
        """Bytes of one block on the host."""
        ...

    def move(self, copy: Copy) -> None:
        """Make the whole copy before returning."""
        ...


class Tags(Protocol):
    """The part of the tag plane that a device uses (runtime.memory.kv.tags.TagPlane)."""

    def verify(self, work: Work, reads: Claims) -> tuple[Breach, ...]:
        """Compare the blocks that `work` reads with the claims `reads`, and return the differences."""
        ...

    def stamp(self, work: Work) -> None:
        """Write the tags of this launch's tokens to the launch's slots."""
        ...
