"""What is asked of memory, and what it hands out: spans, never pointers.

    AllocRequest --alloc--> Span(pool, segment, offset, bytes, generation) --device--> a view of that segment's tensor

A span is a handle. Its generation is given once in the life of a pool, so a handle that was freed, reset or moved is
known as such for ever, whatever lies at its place now.
"""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple

ALIGNMENT_MAX = 4096
"""Offsets are aligned from the base of their segment, so whoever makes segments aligns the base to this."""


class PoolKind(StrEnum):
    """What bytes are for. Kinds differ in how long things live, which is why each has an allocator of its own."""

    WEIGHT = "weight"
    KV = "kv"
    ACTIVATION = "activation"
    WORKSPACE = "workspace"
    IO = "io"
    PREFIX = "prefix"


class Lifetime(IntEnum):
    """How long a span may live; each outlives those before it."""

    OP = 0
    GRAPH = 1  # one step, or one replay
    SESSION = 2
    GLOBAL = 3


@dataclass(frozen=True, slots=True)
class AllocRequest:
    """A wish for bytes. A plain value: make it once and ask with it as often as you like."""

    bytes: int
    alignment: int = 64
    """A power of two, at most ALIGNMENT_MAX, from the base of the segment."""
    pool: PoolKind = PoolKind.ACTIVATION
    lifetime: Lifetime = Lifetime.OP
    session: str = ""
    """The request or session that it is for; needed when it lives as long as that."""
    group: str = ""
    owner: str = field(init=False, repr=False, compare=False)
    """Whose holding it is in the ledger, and so who is named when it leaks."""

    def __post_init__(self) -> None:
        owner = self.session or self.group or f"{self.pool}.{self.lifetime.name.lower()}"
        object.__setattr__(self, "owner", owner)
        problems = []
        if self.bytes < 1:
            problems.append(f"bytes = {self.bytes}: ask for at least 1")
        if not 1 <= self.alignment <= ALIGNMENT_MAX or self.alignment & (self.alignment - 1):
            problems.append(f"alignment = {self.alignment}: give a power of two from 1 to {ALIGNMENT_MAX}")
        if self.lifetime is Lifetime.SESSION and not self.session:
            problems.append("lifetime = session: name the session, or nobody could reset it")
        if problems:
            raise ValueError("; ".join(problems))

    def __str__(self) -> str:
        return f"{self.bytes} B of {self.pool} for {self.owner} ({self.lifetime.name.lower()}, align {self.alignment})"


class Span(NamedTuple):
    """A handle on `bytes` bytes. A tuple and no dataclass: one is made for each allocation of a step."""

    pool: str
    segment: int
    offset: int
    bytes: int
    generation: int


@dataclass(frozen=True, slots=True)
class ResetScope:
    """What a reset ends: all that lives as long as `lifetime` or shorter, of one session, one group, or all (None)."""

    lifetime: Lifetime
    session: str | None = None
    group: str | None = None

    def covers(self, request: AllocRequest) -> bool:
        """Whether what was asked by `request` ends with this scope."""
        return (
            request.lifetime <= self.lifetime
            and (self.session is None or request.session == self.session)
            and (self.group is None or request.group == self.group)
        )
