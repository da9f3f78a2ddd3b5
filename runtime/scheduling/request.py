"""A request's life in the engine.

1. waiting   in the queue, by its rank; holds no blocks
2. running   has blocks; `computed` chases `len(tokens)`: a chunk of the prompt a step, then one token a step
             with a known prefix it begins behind it: it shares the blocks of those who computed it
   (2 -> 1)  preempted: blocks go back, its place in the queue and its tokens stay. Either its KV is gone and `computed`
             falls to 0, or it is `swapped`: its KV lies on the host, and `computed` still says how much of it there is
   (1 -> 2)  a swapped one runs again at once, but is `copying` until its KV is back, and has no row before
3. ended     exactly one End; blocks go back through limbo, a launch still in flight is ignored when it lands
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
from runtime.memory.kv.tags import SequenceTags
from runtime.scheduling.rank import Rank


class RequestState(StrEnum):
    """Where a request is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class Request:
    """One request. Filled by: scheduler (phase, blocks, admit), engine (computed, tokens, first, end)."""

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
        "line",
        "needs_full_check",
        "preempted",
        "published",
        "rank",
        "refused",
        "seq",
        "state",
        "submit",
        "swapped",
        "tokens",
    )

    def __init__(
        self, submit: Submit, seq: int, block_tokens: int, version: str = "", rank: Rank | None = None
    ) -> None:
        self.id = submit.request_id
        self.submit = submit
        self._owners = tuple(Owner(self.id, submit.group, phase) for phase in ("prefill", "decode"))
        self.seq = seq
        self.rank = rank or Rank(submit.arrive_ns, seq)
        """Who goes first."""
        self.state = RequestState.WAITING
        self.tokens: list[int] = list(submit.prompt)
        self.limit = len(submit.prompt) + submit.max_tokens
        """Tokens it has when it must end by length."""
        self.computed = 0
        self.blocks: list[int] = []
        self.generations: list[int] = []
        self.line = SequenceTags(block_tokens)
        self.keys = BlockHashes(block_tokens, salt_of(submit.group, submit.model_key, version))
        self.published = 0
        """Blocks, from the first on, that were offered to the prefix index or taken from it."""
        self.cached = 0
        """Tokens of its prompt that it did not have to compute when it was first admitted."""
        self.admit_ns: int | None = None
        self.first_ns: int | None = None
        self.preempted = 0
        self.refused = 0
        """Its wishes for blocks that the pool refused."""
        self.launches = 0
        """That landed since it last began to run."""
        self.swapped: Swapped | None = None
        """Where its KV is, while it is not, or not yet, in blocks."""
        self.copying: Ticket | None = None
        """The copy that brings its KV back."""
        self.needs_full_check = False
        """Whether its KV has come by another way than its own last launch, so that its next one reads every slot."""
        self.end: End | None = None

    @property
    def remaining(self) -> int:
        """Tokens that must be computed before the next one can be sampled; 1 in decode."""
        return len(self.tokens) - self.computed

    def keys_of(self, blocks: int) -> list[BlockKey]:
        """What its first `blocks` blocks hold once they are full."""
        return self.keys.reach(self.tokens, blocks)

    @property
    def owner(self) -> Owner:
        """The request as memory and faults see it, now. Its phase is decode once the whole prompt is computed."""
        return self._owners[self.computed >= len(self.submit.prompt)]

    @property
    def holding(self) -> Holding:
        """What it has of KV, for figures."""
        host_bytes = self.swapped.span.bytes if self.swapped is not None else 0
        tokens = len(self.tokens)
        return Holding(self.owner, self.blocks, tokens, host_bytes, self.refused, self.preempted, self.cached)

    @property
    def generated(self) -> int:
        """Tokens sampled so far."""
        return len(self.tokens) - len(self.submit.prompt)

    def advance(self, computed: int, sampled: Sampled | None, now_ns: int) -> None:
        """A launch that computed `computed` of its tokens has completed, and may have drawn the next one."""
        self.line.extend(self.tokens[self.computed : self.computed + computed])
        prompt = len(self.submit.prompt)
        self.needs_full_check = self.computed < prompt <= self.computed + computed
        self.computed += computed
        self.launches += 1
        if sampled is not None:
            self.tokens.append(sampled.token)
            if self.first_ns is None:
                self.first_ns = now_ns

    def decoded(self, tokens: Sequence[int]) -> None:
        """Decode steps that drew `tokens`, one each, have completed."""
        end = self.computed + len(tokens)
        self.tokens += tokens
        self.line.extend(self.tokens[self.computed : end])
        self.computed = end
        self.launches += len(tokens)

    def give(self, blocks: Sequence[int], generations: Sequence[int]) -> None:
        """More KV blocks for it, in table order."""
        self.blocks.extend(blocks)
        self.generations.extend(generations)

    def adopt_prefix(self, blocks: Sequence[int], generations: Sequence[int]) -> None:
        """Start with shared full blocks that hold its first tokens. Its claims cover them as if computed by itself."""
        assert not self.blocks and not self.computed, f"{self.id} has begun already"
        self.give(blocks, generations)
        tokens = len(blocks) * self.line.block_tokens
        assert tokens < len(self.tokens), f"{self.id}: its last token must be computed, or there is nothing to sample"
        self.line.extend(self.tokens[:tokens])
        self.computed = tokens
        self.published = len(blocks)
        self.needs_full_check = True

    def strip(self) -> list[int]:
        """Take all its blocks away; what it computed is gone with them."""
        self.computed = 0
        self.line = SequenceTags(self.line.block_tokens)
        return self._without_blocks()

    def mark_swapped(self, swapped: Swapped) -> None:
        """Its KV has gone to the host."""
        self.swapped = swapped
        self._without_blocks()

    def _without_blocks(self) -> list[int]:
        blocks, self.blocks, self.generations = self.blocks, [], []
        self.published = 0
        return blocks

    def finish_reason(self) -> str | None:
        """Why generation is over: "stop", "length", or None when it goes on."""
        if self.tokens[-1] in self.submit.stop_tokens and self.generated:
            return "stop"
        return "length" if len(self.tokens) >= self.limit else None

    def ended(self, end: End, now_ns: int) -> Ended:
        """Close the life; asserts that it is the first end."""
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
