"""A model for virtual time that checks its contract and allocates memory as the torch model does: equal boundaries,
pools, order and fault points.

    run(work)   inputs, decode, chunk -> four arena spans -> per layer: contract, scratch of one operator -> head
                -> sample -> the model -> sampled -> reset of the arena

The tensors at the boundaries are those of the plan (contract/step.py). While no fault is armed, allocations within one
launch leave no trace, and a plan that has passed its checks passes them again: `run` then skips both. No torch, no
time.
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
class LaunchMemory:
    """The bytes that a launch allocates; the defaults are those of the embedded model."""

    token_parts: tuple[int, ...] = (2308, 4544, 6144)
    """Bytes per token: residual, qkv, mlp."""
    sampled_part: int = 3348
    """Bytes per sampled row: hidden state and logits."""
    layers: int = 3
    scratch_token: int = 608
    """Scratch bytes of an operator per token of context: gathered K and V, scores, softmax."""
    scratch_max: int = 8 << 20
    """Maximum scratch bytes of one operator, which works in parts beyond it."""

    def spans(self, tokens: int, sampled: int) -> tuple[int, ...]:
        """Return the sizes (bytes) of a launch's arena spans, in order."""
        rows, last = (max(_BUCKET, aligned(count, _BUCKET)) for count in (tokens, sampled))
        return (*(part * rows for part in self.token_parts), self.sampled_part * last)

    def scratch(self, work: Work) -> int:
        """Return the ring bytes of one layer's operator."""
        return max(1, min(self.scratch_max, self.scratch_token * int(work.context_lens.max(initial=0)) * work.rows))

    def sizes(self, tokens_max: int, seqs_max: int) -> PoolSizes:
        """Return the sizes of pools that hold the largest launch."""
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
        launch_memory: LaunchMemory | None = None,
    ) -> None:
        assert shape.tokens_max is not None and shape.samples_max is not None, "pools hold the largest launch there is"
        self.model = model
        self.contract = StepContract[TensorFacts](env, PlannedTensors(), shape)
        self._env = env
        self._launch_memory = launch_memory or LaunchMemory()
        sizes = self._launch_memory.sizes(shape.tokens_max, shape.samples_max)
        self.pools: Pools = device_pools(env, upstream, sizes)
        self._activation, self._workspace = self.pools[PoolKind.ACTIVATION], self.pools[PoolKind.WORKSPACE]
        self._checked_plans: set[_Plan] = set()
        """Plans whose tensors have passed the contract."""
        # An armed cache fault returns another entry: the cache has some from the start, as after a live warm-up.
        self._cross(_Plan(1, (1, 1), (), 1), lambda: None, lambda: None)

    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        """See StepModel. Raises OutOfMemory or ContractViolation; nothing is computed then."""
        plan = self._plan(work)
        if self._env.faults.armed:
            return self.contract.attempt(work, lambda: self._run(work, plan))
        if plan not in self._checked_plans:
            self.contract.attempt(work, lambda: self._cross(plan, lambda: None, lambda: None))
            self._checked_plans.add(plan)
        self.contract.check_tables(work)
        return self.model.run(work)

    def held(self) -> Iterator[tuple[Span, AllocRequest]]:
        """Yield all live spans with their requests, for the audit (device_audit.py)."""
        return (held for kind in _KINDS for held in self.pools[kind].live())

    def _run(self, work: Work, plan: "_Plan") -> tuple[Sampled | None, ...]:
        """Run a step with all its allocations and contract checks."""
        session = f"step-{work.step}"
        request = AllocRequest(self._launch_memory.scratch(work), pool=PoolKind.WORKSPACE)
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
        """Check every boundary of a step, in the order of the torch model. `begin` runs before the layers, `attend` in
        each layer."""
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
        for size in self._launch_memory.spans(plan.tokens, plan.samples):
            self._activation.alloc(
                AllocRequest(size, pool=PoolKind.ACTIVATION, lifetime=Lifetime.GRAPH, session=session)
            )


class _Plan(NamedTuple):
    """The numbers that determine the shapes of a launch's tensors."""

    tokens: int
    decode: tuple[int, int] | None
    """(rows with one new token, blocks of their longest table); None without such rows."""
    chunks: tuple[tuple[int, int], ...]
    """(new tokens, blocks) of each chunk that reads KV pages."""
    samples: int
    """Number of rows that sample a token."""
    mixed: bool = False
    """True when the launch has decode rows and chunks."""
