"""Row types of the history: one type for each table, NumPy columns for long tables.

Times are nanoseconds since the run's start. Columns hold them as float64 with NaN for "not seen", which is exact below
2**53 ns (104 days). NULL is None, never 0.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

UNFINISHED, DROPPED = "unfinished", "dropped"
COUNTED = ("ids", "usage", "logprobs")
"""The sources of a client's token count that count every token."""


class TextColumn:
    """A text column with few distinct values, kept as integer codes of shape [rows]."""

    def __init__(self, codes: NDArray[np.int32], words: tuple[str | None, ...]) -> None:
        self.codes = codes
        self.words: tuple[str | None, ...] = words

    def __getitem__(self, row: int) -> str | None:
        return self.words[int(self.codes[row])]

    def among(self, *wanted: str | None) -> Mask:
        """A mask of the rows whose text is one of `wanted`."""
        codes = [code for code, word in enumerate(self.words) if word in wanted]
        return np.isin(self.codes, codes)


@dataclass(frozen=True)
class Phase:
    name: str
    n: int
    start_ns: int
    end_ns: int | None
    ended_by: str | None


@dataclass(frozen=True)
class FaultRow:
    """One occurrence of a fault, from its first arming to its last healing. A restart may lie between them."""

    id: str
    n: int
    arm_ns: int | None
    first_ns: int | None
    heal_ns: int | None
    healed_by: str | None
    hits: int
    fired: int  # the larger of the injector's own count and the fire rows that reached the disk
    fired_min: int
    state: str | None

    @property
    def name(self) -> str:
        return f"{self.id}#{self.n}"


@dataclass(frozen=True)
class Fire:
    fault: str
    n: int
    t_ns: int
    requests: tuple[str, ...]  # may be client ids or the server's own; empty when the crossing knew no request
    group: str | None
    evidence: str | None


@dataclass(frozen=True)
class Audit:
    t_ns: int
    scope: str
    name: str
    kind: str
    owner: str | None
    value: float | None
    expected: float | None
    unit: str | None
    history: str | None


@dataclass(frozen=True)
class Event:
    t_ns: int
    proc: str
    kind: str
    value: float | None
    detail: str


@dataclass(frozen=True)
class Canary:
    request: str
    reference: str | None
    compared: int
    parted_at: int | None
    margin: float | None
    state: str | None
    tokens: str | None = None  # as recorded: equal texts are equal answers
    prompt_sha: str | None = None  # canaries of one prompt can be compared with each other


@dataclass(frozen=True)
class Samples:
    """A sampled series in the order of time, arrays of shape [n]. `absent` is the reason why there was no sensor."""

    name: str
    t_ns: Floats
    value: Floats
    period_ns: float | None
    absent: str | None


@dataclass(frozen=True)
class Histogram:
    """Counts of one metric. A row is one bucket of one time window; `bucket` is its lower edge in ns."""

    t_ns: Floats
    width_ns: Floats
    load: TextColumn
    bucket: Floats
    n: Floats


@dataclass(frozen=True)
class Requests:
    """All arrivals with their replies, in the order of sending. Each column has shape [arrivals]."""

    id: list[str]
    load: TextColumn
    kind: TextColumn
    group: TextColumn
    outcome: TextColumn  # "unfinished" where no reply was recorded, "dropped" where nothing was sent
    finish: TextColumn
    tokens_from: TextColumn
    cancel_at: TextColumn
    intended_ns: Floats
    sent_ns: Floats
    first_ns: Floats
    last_ns: Floats
    end_ns: Floats
    cancel_ns: Floats  # when the client closed the connection before the end of the reply
    http: Floats
    prompt_tokens: Floats  # as the server counted them in the reply's usage
    prompt_tokens_sent: Floats  # as the load planned them
    output_tokens: Floats
    output_tokens_max: Floats
    chunks: Floats  # events with text, counted by the client itself

    def __len__(self) -> int:
        return len(self.id)

    @cached_property
    def row_of(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.id)}

    @cached_property
    def sent(self) -> Mask:
        return ~np.isnan(self.sent_ns)

    @cached_property
    def ok(self) -> Mask:
        return self.outcome.among("ok")

    def start_of(self, row: int) -> int:
        """The time (ns) at which a request was sent, or was intended when it was not sent."""
        value = self.sent_ns[row] if self.sent[row] else self.intended_ns[row]
        return 0 if np.isnan(value) else int(value)


@dataclass(frozen=True)
class Served:
    """A row of the server's journal of requests."""

    request: str | None
    server_id: str | None
    end_ns: int | None
    outcome: str | None
    finish: str | None
    tokens_out: int | None
    tokens_in: int | None
    tokens_cached: int | None
    preempted: int | None
    first_ns: int | None


@dataclass(frozen=True)
class HangUp:
    """A row of the server's journal about a client that left. Counts are tokens, times ns since the run's start."""

    t_ns: int  # when the server saw it
    why: str
    tokens_seen: int  # generated by then
    end_ns: int  # when the engine ended the request
    outcome: str  # the engine's own; ok: the answer was generated to its end
    tokens: int  # generated in all
