"""A model in virtual time that is held to its contract and takes memory as the torch one does: same boundaries, same
pools, same order, same points.

    run(work)   inputs, decode, chunk -> four spans of the arena -> layer, an operator's scratch, once a layer -> head
                -> sample -> the model -> sampled -> the arena is reset

The tensors at the boundaries are those of the plan (contract/step.py). Without faults, taking and giving back within
one launch leaves no trace, and a plan of a shape that was held once is held again: both are left out while none is
armed. No torch, no time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from runtime.contract.binder import PlannedTensors
from runtime.contract.spec import TensorFacts
from runtime.contract.step import CHUNK, HEAD, INPUTS, LAYER, SAMPLE, ModelShape, StepContract, decode_graph
from runtime.core.env import Env
from runtime.core.work import Sampled, Work
from runtime.device.ports import StepModel
from runtime.memory.assembly import PoolSizes, device_pools
from runtime.memory.spans.placement import aligned
from runtime.memory.spans.pools import Pools
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, ResetScope, Span
from runtime.memory.spans.upstream import Upstream

_BUCKET = 16
_KINDS = (PoolKind.WEIGHT, PoolKind.ACTIVATION, PoolKind.WORKSPACE)


@dataclass(frozen=True, slots=True)
class Ration:
    """Bytes that a launch takes. The defaults are those of the embedded model."""

    token_parts: tuple[int, ...] = (2308, 4544, 6144)
    """A token: residual, qkv, mlp."""
    sampled_part: int = 3348
    """A sampled row: logits and what is before them."""
    layers: int = 3
    scratch_token: int = 608
    """An operator, for each token of context: gathered K and V, scores, shares."""
    scratch_max: int = 8 << 20
    """Of one operator; it goes in parts beyond."""

    def spans(self, tokens: int, sampled: int) -> tuple[int, ...]:
        """Of the arena, in order."""
        rows, last = (max(_BUCKET, aligned(count, _BUCKET)) for count in (tokens, sampled))
        return (*(part * rows for part in self.token_parts), self.sampled_part * last)

    def scratch(self, work: Work) -> int:
        """Of the ring, for one layer."""
        return max(1, min(self.scratch_max, self.scratch_token * int(work.context_lens.max(initial=0)) * work.rows))

    def sizes(self, tokens_max: int, seqs_max: int) -> PoolSizes:
        """Of pools that hold the largest launch."""
        step = sum(aligned(size, 4096) for size in self.spans(tokens_max, seqs_max))
        return PoolSizes(step=step, workspace=2 * self.scratch_max)


class AccountedModel:
    """Implements `runtime.device.ports.StepModel` around `model`, in pools on `upstream` for launches up to
    `shape.tokens_max` tokens and `shape.samples_max` rows."""

    def __init__(
        self,
        model: StepModel,
        env: Env,
        upstream: Upstream,
        shape: ModelShape,
        ration: Ration | None = None,
    ) -> None:
        assert shape.tokens_max is not None and shape.samples_max is not None, "pools hold the largest launch there is"
        self.model = model
        self.contract = StepContract[TensorFacts](env, PlannedTensors(), shape)
        self._env = env
        self._ration = ration or Ration()
        sizes = self._ration.sizes(shape.tokens_max, shape.samples_max)
        self.pools: Pools = device_pools(env, upstream, sizes)
        self._activation, self._workspace = self.pools[PoolKind.ACTIVATION], self.pools[PoolKind.WORKSPACE]
        self._held_once: set[_Plan] = set()
        """Plans whose tensors keep the contract."""
        # An armed cache fault lies with another entry: there are some from the start, as after a live warm-up.
        self._cross(_Plan(1, (1, 1), (), 1), lambda: None, lambda: None)

    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        """See StepModel. Raises OutOfMemory or ContractViolation, and then nothing was computed."""
        plan = self._plan(work)
        if self._env.faults.armed:
            return self.contract.attempt(work, lambda: self._run(work, plan))
        if plan not in self._held_once:
            self.contract.attempt(work, lambda: self._cross(plan, lambda: None, lambda: None))
            self._held_once.add(plan)
        self.contract.check_tables(work)
        return self.model.run(work)

    def held(self) -> Iterator[tuple[Span, AllocRequest]]:
        """All spans that have not ended, for the audit (holdings.py)."""
        return (held for kind in _KINDS for held in self.pools[kind].live())

    def _run(self, work: Work, plan: "_Plan") -> tuple[Sampled | None, ...]:
        """A step with all that it takes and all that is held."""
        session = f"step-{work.step}"
        request = AllocRequest(self._ration.scratch(work), pool=PoolKind.WORKSPACE)
        try:
            self.contract.check_tables(work)
            self._cross(
                plan,
                lambda: self._take(plan, session),
                lambda: self._workspace.free(self._workspace.alloc(request), None),
            )
            return self.model.run(work)
        finally:
            self._activation.reset(ResetScope(Lifetime.GRAPH, session), None)

    def _cross(self, plan: "_Plan", begin: Callable[[], None], attend: Callable[[], None]) -> None:
        """Every boundary of a step, in the order of the torch one."""
        contract = self.contract
        contract.cross(INPUTS, contract.planned(INPUTS, tokens=plan.tokens, fed=plan.tokens, samples=plan.samples))
        if plan.decode is not None:
            rows, width = plan.decode
            graph = decode_graph(mixed=plan.mixed, by_page=False)
            contract.cross(graph, contract.planned(graph, rows=rows, width=width))
        for new, width in plan.chunks:
            contract.cross(CHUNK, contract.planned(CHUNK, new=new, width=width))
        begin()
        layer = contract.planned(LAYER, plan.tokens)
        for _ in range(contract.shape.layers):
            contract.cross(LAYER, layer, plan.tokens)
            attend()
        contract.cross(HEAD, contract.planned(HEAD, plan.tokens), plan.tokens)
        contract.cross(SAMPLE, contract.planned(SAMPLE, plan.samples), plan.samples)
        if plan.samples:
            sampled = contract.planned(SAMPLE, plan.samples, outputs=True)
            contract.cross(SAMPLE, sampled, plan.samples, outputs=True)

    def _plan(self, work: Work) -> "_Plan":
        size = self.contract.shape.block_tokens
        samples = len(work.sampling) - work.sampling.count(None)
        if work.tokens == work.rows:
            return _Plan(work.tokens, (work.rows, -(-int(work.context_lens.max()) // size)), (), samples)
        lengths = (work.row_starts[1:] - work.row_starts[:-1]).tolist()
        contexts = work.context_lens.tolist()
        singles = [context for context, length in zip(contexts, lengths, strict=True) if length == 1]
        chunks = tuple(
            (length, -(-context // size))
            for context, length in zip(contexts, lengths, strict=True)
            if length > 1 and context > length  # the first chunk of a sequence reads no pages
        )
        decode = (len(singles), -(-max(singles) // size)) if singles else None
        return _Plan(work.tokens, decode, chunks, samples, mixed=len(singles) < work.rows)

    def _take(self, plan: "_Plan", session: str) -> None:
        for size in self._ration.spans(plan.tokens, plan.samples):
            self._activation.alloc(
                AllocRequest(size, pool=PoolKind.ACTIVATION, lifetime=Lifetime.GRAPH, session=session)
            )


class _Plan(NamedTuple):
    """What fixes the shapes of a launch's tensors."""

    tokens: int
    decode: tuple[int, int] | None
    """(rows with one new token, blocks of the longest table)."""
    chunks: tuple[tuple[int, int], ...]
    """(new tokens, blocks) of each chunk that reads pages."""
    samples: int
    mixed: bool = False
    """Whether decode rows stand among chunks."""
