"""Requests to memory pools, and spans: the handles that pools hand out in place of pointers.

    AllocRequest --alloc--> Span(pool, segment, offset, bytes, generation) --device--> a view of that segment's tensor

Each generation is given once in the life of a pool, so a pool recognises a handle that was freed, reset or moved, even
when another span lies at its place.
"""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple

ALIGNMENT_MAX = 4096
"""Bytes. Offsets are aligned relative to the base of their segment, so the base is aligned to this."""


class PoolKind(StrEnum):
    """The use of bytes. Kinds differ in how long their spans live, so each has an allocator of its own."""

    WEIGHT = "weight"
    KV = "kv"
    ACTIVATION = "activation"
    WORKSPACE = "workspace"
    IO = "io"
    PREFIX = "prefix"


class Lifetime(IntEnum):
    """How long a span may live, shortest first."""

    OP = 0
    GRAPH = 1  # one step, or one replay
    SESSION = 2
    GLOBAL = 3


@dataclass(frozen=True, slots=True)
class AllocRequest:
    """A request for `bytes` bytes. It is a plain value and may be used more than once."""

    bytes: int
    alignment: int = 64
    """A power of two up to ALIGNMENT_MAX, in bytes."""
    pool: PoolKind = PoolKind.ACTIVATION
    lifetime: Lifetime = Lifetime.OP
    session: str = ""
    """Id of the request, or of the step, that the span belongs to. Lifetime SESSION needs one."""
    group: str = ""
    owner: str = field(init=False, repr=False, compare=False)
    """Name in the ledger and in the audit: session, or group, or pool and lifetime."""

    def __post_init__(self) -> None:
        owner = self.session or self.group or f"{self.pool}.{self.lifetime.name.lower()}"
        object.__setattr__(self, "owner", owner)
        problems = []
        if self.bytes < 1:
            problems.append(f"bytes = {self.bytes}: ask for at least 1")
        if not 1 <= self.alignment <= ALIGNMENT_MAX or self.alignment & (self.alignment - 1):
            problems.append(f"alignment = {self.alignment}: give a power of two from 1 to {ALIGNMENT_MAX}")
        if self.lifetime is Lifetime.SESSION and not self.session:
            problems.append("lifetime = session: name the session, which a reset needs")
        if problems:
            raise ValueError("; ".join(problems))

    def __str__(self) -> str:
        return f"{self.bytes} B of {self.pool} for {self.owner} ({self.lifetime.name.lower()}, align {self.alignment})"


class Span(NamedTuple):
    """A handle to `bytes` bytes at `offset` of a segment. It is a tuple, since each allocation of a step makes one."""

    pool: str
    segment: int
    offset: int
    bytes: int
    generation: int


@dataclass(frozen=True, slots=True)
class ResetScope:
    """The spans that a reset ends: all whose lifetime is `lifetime` or shorter. `session` and `group` narrow it to the
    spans of one session or one group."""

    lifetime: Lifetime
    session: str | None = None
    group: str | None = None

    def covers(self, request: AllocRequest) -> bool:
        """Return True when the span of `request` is in this scope."""
        return (
            request.lifetime <= self.lifetime
            and (self.session is None or request.session == self.session)
            and (self.group is None or request.group == self.group)
        )
