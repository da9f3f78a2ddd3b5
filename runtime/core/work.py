"""What the engine asks of a device at once, and what comes back: plain data, the same for torch and virtual time.

rows        one per request in the batch, each with `row_starts[r+1] - row_starts[r]` new tokens
tokens      flat over all rows: token id, position in its sequence, and the KV slot it is written to
slot        block * block_tokens + offset; a row's whole past is reached through its block table
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a row's next token is drawn. The draw depends on (seed, position), never on the batch it ran in."""

    temperature: float = 0.0
    """0 is greedy."""
    top_p: float = 1.0
    seed: int = 0
    logprobs: int | None = None
    """How many alternatives to report beside the chosen token; None reports nothing."""


@dataclass(frozen=True, slots=True)
class Work:
    """One launch. Rows without sampling (`None`) are chunks of a prompt that is not finished yet."""

    step: int
    model_key: str
    request_ids: tuple[str, ...]
    token_ids: Ints
    """[tokens]"""
    positions: Ints
    """[tokens]"""
    slots: Ints
    """[tokens]; where the KV of each token is written."""
    row_starts: Ints
    """[rows + 1]; offsets of each row's tokens."""
    context_lens: Ints
    """[rows]; tokens in KV once this launch is done."""
    block_tables: tuple[Sequence[int], ...]
    """Per row: block ids that cover `context_lens[row]` tokens."""
    sampling: tuple[Sampling | None, ...]
    prefix_hashes: tuple[int, ...]
    """Per row: the running tag hash before its first new token (memory/kv/tags.py); the device stamps from it."""

    @property
    def rows(self) -> int:
        """Requests in this launch."""
        return len(self.request_ids)

    @property
    def tokens(self) -> int:
        """New tokens in this launch."""
        return len(self.token_ids)

    def __str__(self) -> str:
        return f"step {self.step}"


class Way(StrEnum):
    """Between device and host."""

    OUT = "out"
    IN = "in"


@dataclass(frozen=True, slots=True)
class Copy:
    """KV of one request, tags included, between its blocks and bytes on the host."""

    request_id: str
    way: Way
    blocks: Sequence[int]
    """In table order."""
    segment: int
    """Of the host pool, and the offset in it (bytes): block after block, `block_bytes` of the device each."""
    offset: int

    def __str__(self) -> str:
        return f"swap {self.way} of {self.request_id}, {len(self.blocks)} blocks"


@dataclass(slots=True)
class Claim:
    """What a request holds to be in its KV before this launch, from its own tokens and never from the plan."""

    request_id: str
    generations: Sequence[int]
    """Per block: the generation it had when the request was given it."""
    sums: Sequence[int]
    """Per block: the index-weighted tag sum of the tokens that the request has computed (mod 2**64)."""
    tokens: int
    """How many tokens that is; the last block may be part full, and what lies behind them is nobody's claim."""
    deep: bool = False
    """Whether every slot is to be read, and not only the sums that are kept of them."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A block that does not hold what its reader claims."""

    request_id: str
    block: int
    index: int
    """Which block of the request's table."""
    what: str
    """"generation": it was given away meanwhile; "content": other, missing, moved or stale tags."""


@dataclass(slots=True)
class Sampled:
    """One drawn token with what its client asked to see."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    """(token, logprob), most likely first, when asked for."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a finished launch gives back: one entry a row, None where nothing was sampled."""

    sampled: tuple[Sampled | None, ...]
    breaches: tuple[Breach, ...] = ()
