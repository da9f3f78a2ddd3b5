"""The states of a request in the engine.

1. waiting   in the queue, in order of rank; holds no blocks
2. running   holds blocks; each step computes a chunk of the prompt or one decode token, until `computed` reaches
             `len(tokens)`; a request whose prefix is cached shares the cached blocks and starts behind them
   (2 -> 1)  preempted: the request loses its blocks and keeps its rank and tokens. Either its KV is discarded and
             `computed` is 0, or it is `swapped`: its KV is on the host, and `computed` counts its tokens
   (1 -> 2)  a swapped request that resumes is `copying` until its KV is back, and has no row before
3. ended     exactly one End; blocks go back through limbo; the engine ignores a launch in flight when it completes
"""

from collections.abc import Sequence
from enum import StrEnum

from runtime.core.messages import End, Ended, Submit
from runtime.core.owner import Owner
from runtime.core.ports import Ticket
from runtime.core.work import Sampled
from runtime.memory.kv.figures import Holding
from runtime.memory.kv.prefix import BlockHashes, BlockKey, salt_of
from runtime.memory.kv.swap import Swapped
from runtime.memory.kv.tags import SequenceTable, SequenceTags
from runtime.scheduling.rank import Rank


class RequestState(StrEnum):
    """The state of a request; see the top of this file."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class Request:
    """One request. The scheduler sets state, blocks and `admit_ns`; the engine sets tokens, `computed` and the end."""

    __slots__ = (
        "_owners",
        "admit_ns",
        "blocks",
        "cached",
        "computed",
        "copying",
        "end",
        "first_ns",
        "generations",
        "id",
        "keys",
        "launches",
        "limit",
        "needs_full_check",
        "preempted",
        "published",
        "rank",
        "refused",
        "seq",
        "state",
        "submit",
        "swapped",
        "tags",
        "tokens",
    )

    def __init__(
        self, submit: Submit, seq: int, sequences: SequenceTable, version: str = "", rank: Rank | None = None
    ) -> None:
        self.id = submit.request_id
        self.submit = submit
        self._owners = tuple(Owner(self.id, submit.group, phase) for phase in ("prefill", "decode"))
        self.seq = seq
        self.rank = rank or Rank(submit.arrive_ns, seq)
        """Sort key in the queues."""
        self.state = RequestState.WAITING
        self.tokens: list[int] = list(submit.prompt)
        self.limit = len(submit.prompt) + submit.max_tokens
        """Number of tokens, prompt included, at which the request ends by length."""
        self.computed = 0
        """Number of tokens whose KV is computed."""
        self.blocks: list[int] = []
        self.generations: list[int] = []
        self.tags = SequenceTags(sequences)
        self.keys = BlockHashes(sequences.block_tokens, salt_of(submit.group, submit.model_key, version))
        self.published = 0
        """Number of leading blocks that are published in the prefix index or taken from it."""
        self.cached = 0
        """Prompt tokens that the prefix cache held when the request first started."""
        self.admit_ns: int | None = None
        self.first_ns: int | None = None
        self.preempted = 0
        self.refused = 0
        """Number of times that the pool refused blocks to the request."""
        self.launches = 0
        """Completed launches since the request last started to run."""
        self.swapped: Swapped | None = None
        """The place of its KV on the host; None while its KV is in blocks."""
        self.copying: Ticket | None = None
        """The copy in flight from the host to its blocks."""
        self.needs_full_check = False
        """True when the next launch must compare every slot, since the last launch did not write all of its KV."""
        self.end: End | None = None

    @property
    def remaining(self) -> int:
        """Number of tokens to compute before the next one can be sampled; 1 in decode."""
        return len(self.tokens) - self.computed

    def keys_of(self, blocks: int) -> list[BlockKey]:
        """Return the prefix hashes of the request's first `blocks` blocks, which its tokens must fill."""
        return self.keys.keys_for(self.tokens, blocks)

    @property
    def owner(self) -> Owner:
        """The owner for memory and fault points. Its phase is decode once the whole prompt is computed."""
        return self._owners[self.computed >= len(self.submit.prompt)]

    @property
    def holding(self) -> Holding:
        """The KV that the request holds, for metrics."""
        host_bytes = self.swapped.span.bytes if self.swapped is not None else 0
        tokens = len(self.tokens)
        return Holding(self.owner, self.blocks, tokens, host_bytes, self.refused, self.preempted, self.cached)

    @property
    def stage(self) -> str:
        """How far the request has come: waiting, preempted, swapped, copying, prefill, decode or ended."""
        if self.state is RequestState.WAITING:
            return "swapped" if self.swapped is not None else "preempted" if self.preempted else "waiting"
        if self.state is RequestState.ENDED:
            return "ended"
        if self.copying is not None:
            return "copying"
        return "prefill" if self.computed < len(self.submit.prompt) else "decode"

    @property
    def generated(self) -> int:
        """Number of tokens sampled so far."""
        return len(self.tokens) - len(self.submit.prompt)

    def advance(self, computed: int, sampled: Sampled | None, now_ns: int) -> None:
        """Record a completed launch of `computed` of the request's tokens, and the token that it sampled, if any."""
        start, end = self.computed, self.computed + computed
        self.tags.extend(self.tokens[start:end])
        self.needs_full_check = start < len(self.submit.prompt) <= end
        self.computed = end
        self.launches += 1
        if sampled is not None:
            self.tokens.append(sampled.token)
            if self.first_ns is None:
                self.first_ns = now_ns

    def decoded(self, tokens: Sequence[int]) -> None:
        """Record completed decode steps that sampled `tokens`, one per step."""
        end = self.computed + len(tokens)
        self.tokens += tokens
        self.tags.extend(self.tokens[self.computed : end])
        self.computed = end
        self.launches += len(tokens)

    def begin(self, now_ns: int, block_tokens: int) -> str:
        """Record the first admission. Return the path (runtime/counters.py) that the request takes."""
        if self.admit_ns is not None:
            return "resume.recompute"
        self.admit_ns, self.cached = now_ns, self.computed
        if not self.computed:
            return "prefix.miss"
        full = (len(self.tokens) - 1) // block_tokens * block_tokens
        return "prefix.full_hit" if self.computed == full else "prefix.hit"

    def give(self, blocks: Sequence[int], generations: Sequence[int]) -> None:
        """Append KV blocks and their generations to the block table."""
        self.blocks.extend(blocks)
        self.generations.extend(generations)

    def adopt_prefix(self, blocks: Sequence[int], generations: Sequence[int]) -> None:
        """Start with shared full blocks that hold the first tokens. The claims cover them like computed tokens."""
        assert not self.blocks and not self.computed, f"{self.id} has begun already"
        self.give(blocks, generations)
        tokens = len(blocks) * self.tags.table.block_tokens
        assert tokens < len(self.tokens), f"{self.id}: its last token must be computed, or there is nothing to sample"
        self.tags.extend(self.tokens[:tokens])
        self.computed = tokens
        self.published = len(blocks)
        self.needs_full_check = True

    def strip(self) -> list[int]:
        """Remove and return all blocks, and reset `computed` to 0."""
        self.computed = 0
        self.tags.clear()
        return self._without_blocks()

    def mark_swapped(self, swapped: Swapped) -> None:
        """Record that the KV is copied to the host. The request holds no blocks any more; `computed` stays."""
        self.swapped = swapped
        self._without_blocks()

    def _without_blocks(self) -> list[int]:
        blocks, self.blocks, self.generations = self.blocks, [], []
        self.published = 0
        return blocks

    def finish_reason(self) -> str | None:
        """Return "stop" or "length" when generation is complete, else None."""
        stops = self.submit.stop_tokens
        if stops and self.tokens[-1] in stops and self.generated:
            return "stop"
        return "length" if len(self.tokens) >= self.limit else None

    def ended(self, end: End, now_ns: int) -> Ended:
        """Set the end and return the record of the request. A second call is an assertion error."""
        assert self.end is None, f"{self.id} ends as {end.outcome} and has ended as {self.end}"
        self.end = end
        self.state = RequestState.ENDED
        return Ended(
            end=end,
            arrive_ns=self.submit.arrive_ns,
            admit_ns=self.admit_ns,
            first_ns=self.first_ns,
            end_ns=now_ns,
            tokens_in=len(self.submit.prompt),
            tokens_out=self.generated,
            tokens_cached=self.cached,
            preempted=self.preempted,
        )
