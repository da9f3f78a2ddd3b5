"""A model in virtual time that takes the memory of a launch as the torch one does: same pools, same order, same points.

    run(work)   four spans of the arena -> an operator's scratch, once a layer -> the model -> the arena is reset

Without faults, taking and giving back within one launch leaves no trace, so it is left out while none is armed; that
the launch is no larger than its pools is asserted all the same. No torch, no time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from runtime.core.env import Env
from runtime.core.work import Sampled, Work
from runtime.device.ports import StepModel
from runtime.memory.spans.placement import aligned
from runtime.memory.spans.pools import Pools
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, ResetScope, Span
from runtime.memory.spans.upstream import Upstream
from runtime.memory.standard import PoolSizes, device_pools

_BUCKET = 16
_KINDS = (PoolKind.WEIGHT, PoolKind.ACTIVATION, PoolKind.WORKSPACE)


@dataclass(frozen=True, slots=True)
class Ration:
    """What a launch takes, in bytes; those of the embedded model."""

    token_parts: tuple[int, ...] = (2308, 4544, 6144)
    """A token: residual, qkv, mlp."""
    picked_part: int = 3348
    """A sampled row: logits and what is before them."""
    layers: int = 3
    scratch_token: int = 608
    """An operator, for each token of context: gathered K and V, scores, shares."""
    scratch_max: int = 8 << 20
    """Of one operator; it goes in parts beyond."""

    def spans(self, tokens: int, picked: int) -> tuple[int, ...]:
        """Of the arena, in order."""
        rows, last = (max(_BUCKET, aligned(count, _BUCKET)) for count in (tokens, picked))
        return (*(part * rows for part in self.token_parts), self.picked_part * last)

    def scratch(self, work: Work) -> int:
        """Of the ring, for one layer."""
        return max(1, min(self.scratch_max, self.scratch_token * int(work.context_lens.max(initial=0)) * work.rows))

    def sizes(self, tokens_max: int, seqs_max: int) -> PoolSizes:
        """Of pools that hold the largest launch."""
        step = sum(aligned(size, 4096) for size in self.spans(tokens_max, seqs_max))
        return PoolSizes(step=step, workspace=2 * self.scratch_max)


class Rationed:
    """Implements `runtime.device.ports.StepModel` around `model`, in pools on `upstream` for launches up to
    `tokens_max` tokens and `seqs_max` rows."""

    def __init__(
        self,
        model: StepModel,
        env: Env,
        upstream: Upstream,
        tokens_max: int,
        seqs_max: int,
        ration: Ration | None = None,
    ) -> None:
        self.model = model
        self._env = env
        self._ration = ration or Ration()
        sizes = self._ration.sizes(tokens_max, seqs_max)
        self.pools: Pools = device_pools(env, upstream, sizes)
        self._activation, self._workspace = self.pools[PoolKind.ACTIVATION], self.pools[PoolKind.WORKSPACE]
        self._tokens_max, self._seqs_max = tokens_max, seqs_max

    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        """See StepModel. Raises OutOfMemory, and then nothing was computed."""
        if not self._env.faults.armed:
            assert work.tokens <= self._tokens_max and work.rows <= self._seqs_max, "a launch larger than its pools"
            return self.model.run(work)
        session = f"step-{work.step}"
        try:
            self._take(work, session)
            return self.model.run(work)
        finally:
            self._activation.reset(ResetScope(Lifetime.GRAPH, session), None)

    def held(self) -> Iterator[tuple[Span, AllocRequest]]:
        """All spans that have not ended, for the audit (holdings.py)."""
        return (held for kind in _KINDS for held in self.pools[kind].live())

    def _take(self, work: Work, session: str) -> None:
        picked = sum(sampling is not None for sampling in work.sampling)
        for size in self._ration.spans(work.tokens, picked):
            self._activation.alloc(
                AllocRequest(size, pool=PoolKind.ACTIVATION, lifetime=Lifetime.GRAPH, session=session)
            )
        scratch = AllocRequest(self._ration.scratch(work), pool=PoolKind.WORKSPACE)
        for _ in range(self._ration.layers):
            self._workspace.free(self._workspace.alloc(scratch), None)
