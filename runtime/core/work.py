"""Launches, copies and their results: plain data, equal for torch and for virtual time.

rows        requests in the launch; row r has `row_starts[r+1] - row_starts[r]` new tokens
tokens      new tokens, flat over all rows: token id, position in its sequence, and KV slot
slot        block * block_tokens + offset; a row reads its earlier tokens through its block table
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters of a row. A draw depends on (seed, position), never on the other rows of the launch."""

    temperature: float = 0.0
    """0 means greedy decoding."""
    top_p: float = 1.0
    seed: int = 0
    logprobs: int | None = None
    """Number of alternatives to report beside the sampled token; None reports no log probabilities."""


@dataclass(frozen=True, slots=True)
class Work:
    """One launch. A row whose sampling is None is a chunk of a prompt that is not complete yet."""

    step: int
    model_key: str
    request_ids: tuple[str, ...]
    token_ids: Ints
    """[tokens], int64."""
    positions: Ints
    """[tokens], int64: the index of each token in its sequence."""
    slots: Ints
    """[tokens], int64: the KV slot that each token is written to."""
    row_starts: Ints
    """[rows + 1], int64: the offset of each row's first token in `token_ids`."""
    context_lens: Ints
    """[rows], int64: the tokens in KV once this launch is done."""
    block_tables: tuple[Sequence[int], ...]
    """[rows][blocks]: ids of the blocks that cover `context_lens[row]` tokens."""
    sampling: tuple[Sampling | None, ...]
    """[rows]."""
    prefix_hashes: tuple[int, ...]
    """[rows]: the tag hash before the row's first new token (memory/kv/tags.py). The device computes tags from it."""

    @property
    def rows(self) -> int:
        """Number of requests in this launch."""
        return len(self.request_ids)

    @property
    def tokens(self) -> int:
        """Number of new tokens in this launch."""
        return len(self.token_ids)

    def __str__(self) -> str:
        return f"step {self.step}"


class Way(StrEnum):
    """Direction of a copy: OUT from the device to the host, IN from the host to the device."""

    OUT = "out"
    IN = "in"


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of one request's KV and tags between its blocks and a range of bytes on the host."""

    request_id: str
    way: Way
    blocks: Sequence[int]
    """Block ids in table order."""
    segment: int
    """Segment of the host pool."""
    offset: int
    """Offset of the range in its segment, in bytes. The range has `len(blocks) * Mover.block_bytes` bytes."""

    def __str__(self) -> str:
        return f"swap {self.way} of {self.request_id}, {len(self.blocks)} blocks"


@dataclass(slots=True)
class Claim:
    """The tags that a request expects in its KV before a launch. They are computed from its own tokens, never from the
    plan, so that they reveal a wrong plan."""

    request_id: str
    generations: Sequence[int]
    """[blocks]: the generation that each block had when the request took it."""
    sums: Sequence[int]
    """[blocks]: the index-weighted tag sum of the request's computed tokens in each block (mod 2**64)."""
    tokens: int
    """Number of computed tokens. The last block may be partly full; its remaining slots are not checked."""
    deep: bool = False
    """True when the device reads every slot. It compares only the cached sums otherwise."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A block whose content or generation differs from its reader's claim."""

    request_id: str
    block: int
    index: int
    """Index of the block in the request's block table."""
    what: str
    """"generation": the block was handed to another request meanwhile; "content": its tags are wrong or missing."""


@dataclass(slots=True)
class Sampled:
    """One sampled token, with log probabilities when the request asks for them."""

    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    """(token, logprob) of the alternatives, most likely first; empty when none are requested."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a completed launch."""

    sampled: tuple[Sampled | None, ...]
    """[rows]; None for a row that samples no token."""
    breaches: tuple[Breach, ...] = ()
