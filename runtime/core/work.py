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
Words = npt.NDArray[np.uint64]

NO_BLOCK = -1
"""Fills block tables behind their end."""


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
    block_tables: Ints
    """[rows, blocks], int64: ids of the blocks that cover `context_lens[row]` tokens, then NO_BLOCK."""
    sampling: tuple[Sampling | None, ...]
    """[rows]."""
    prefix_hashes: Words
    """[rows], uint64: the tag hash before the row's first new token (memory/kv/tags.py), to compute tags from."""

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


@dataclass(frozen=True, slots=True)
class Claims:
    """The tags that the requests of a launch expect in their KV before it. They are computed from the requests' own
    tokens, never from the plan, so that they reveal a wrong plan."""

    request_ids: tuple[str, ...]
    """[rows]."""
    generations: Ints
    """[rows, blocks]: the generation that each block of the table had when the request took it; 0 for NO_BLOCK."""
    sums: Words
    """[rows, blocks]: the index-weighted tag sum of the request's computed tokens in each block (mod 2**64)."""
    tokens: Sequence[int]
    """[rows]: number of computed tokens. Slots behind them are not checked."""
    deep: Sequence[bool]
    """[rows]: True when the device reads every slot of the row. It compares only the cached sums otherwise."""


def padded_tables(tables: Sequence[Sequence[int]]) -> Ints:
    """Return block tables as one array [rows, blocks], filled up with NO_BLOCK."""
    width = max(map(len, tables), default=0)
    return np.array([[*table, *[NO_BLOCK] * (width - len(table))] for table in tables], np.int64)


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
