"""A model for virtual time that checks its contract and allocates memory as the torch model does: equal boundaries,
pools, order and fault points.

    run(work)   inputs, decode, chunk -> four arena spans -> per layer: contract, scratch of one operator -> head
                -> sample -> the model -> sampled -> reset of the arena

The tensors at the boundaries are those of the plan (contract/step.py). While no fault is armed, allocations within one
launch leave no trace, and a boundary that has passed its check with some dims passes it again: `run` then skips both.
No torch, no time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from runtime.contract.binder import PlannedTensors
from runtime.contract.spec import TensorFacts
from runtime.contract.step import CHUNK, HEAD, INPUTS, LAYER, SAMPLE, ModelShape, StepContract, decode_graph
from runtime.core.env import Env
from runtime.core.work import Sampled, Work
from runtime.device.ports import StepModel
from runtime.memory.assembly import PoolSizes, device_pools
from runtime.memory.spans.placement import aligned
from runtime.memory.spans.pool import Pools
from runtime.memory.spans.span import AllocRequest, Lifetime, PoolKind, ResetScope, Span
from runtime.memory.spans.upstream import Upstream

_BUCKET = 16
_CHECKED_MAX = 8192
"""Boundaries remembered as checked, about 3 MB. Half an hour of recorded traffic had 11,830 in 63,774 steps."""
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
        self._checked: dict[_Boundary, None] = {}
        """Boundaries whose tensors have passed the contract, oldest first."""
        # An armed cache fault returns another entry: the cache has some from the start, as after a live warm-up.
        for boundary in _boundaries(tokens=1, decode=(1, 1), chunks=(), samples=1, mixed=False):
            self._check(boundary)

    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        """See StepModel. Raises OutOfMemory or ContractViolation; nothing is computed then."""
        boundaries = self._plan(work)
        if self._env.faults.armed:
            return self.contract.attempt(work, lambda: self._run(work, boundaries))
        unchecked = [boundary for boundary in boundaries if boundary not in self._checked]
        if unchecked:
            self.contract.attempt(work, lambda: self._check_new(unchecked))
        self.contract.check_tables(work)
        return self.model.run(work)

    def held(self) -> Iterator[tuple[Span, AllocRequest]]:
        """Yield all live spans with their requests, for the audit (device_audit.py)."""
        return (held for kind in _KINDS for held in self.pools[kind].live())

    def _run(self, work: Work, boundaries: "tuple[_Boundary, ...]") -> tuple[Sampled | None, ...]:
        """Run a step with all its allocations and contract checks, in the order of the torch model."""
        session = f"step-{work.step}"
        scratch = AllocRequest(self._launch_memory.scratch(work), pool=PoolKind.WORKSPACE)
        try:
            self.contract.check_tables(work)
            for boundary in boundaries:
                if boundary.graph != LAYER:
                    self._check(boundary)
                    continue
                self._take(work, session)
                for _ in range(self.contract.shape.layers):
                    self._check(boundary)
                    self._workspace.free(self._workspace.alloc(scratch), None)
            return self.model.run(work)
        finally:
            self._activation.reset(ResetScope(Lifetime.GRAPH, session), None)

    def _check_new(self, boundaries: "list[_Boundary]") -> None:
        """Check boundaries and remember them; the oldest ones are forgotten beyond the maximum."""
        for boundary in boundaries:
            self._check(boundary)
            if len(self._checked) >= _CHECKED_MAX:
                del self._checked[next(iter(self._checked))]
            self._checked[boundary] = None

    def _check(self, boundary: "_Boundary") -> None:
        graph, given, dims, outputs = boundary
        tensors = self.contract.planned(graph, *given, outputs=outputs, **dict(dims))
        self.contract.cross(graph, tensors, *given, outputs=outputs)

    def _plan(self, work: Work) -> "tuple[_Boundary, ...]":
        """Return the boundaries of a step, in order."""
        size, samples = self.contract.shape.block_tokens, _samples(work)
        if work.tokens == work.rows:
            width = -(-int(work.context_lens.max()) // size)
            return _boundaries(work.tokens, (work.rows, width), (), samples, mixed=False)
        lengths = (work.row_starts[1:] - work.row_starts[:-1]).tolist()
        contexts = work.context_lens.tolist()
        singles = [context for context, length in zip(contexts, lengths, strict=True) if length == 1]
        chunks = tuple(
            (length, -(-context // size))
            for context, length in zip(contexts, lengths, strict=True)
            if length > 1 and context > length  # the first chunk of a sequence reads no pages
        )
        decode = (len(singles), -(-max(singles) // size)) if singles else None
        return _boundaries(work.tokens, decode, chunks, samples, mixed=True)

    def _take(self, work: Work, session: str) -> None:
        for size in self._launch_memory.spans(work.tokens, _samples(work)):
            self._activation.alloc(
                AllocRequest(size, pool=PoolKind.ACTIVATION, lifetime=Lifetime.GRAPH, session=session)
            )


class _Boundary(NamedTuple):
    """A boundary of a step and all numbers that determine the shapes of its tensors."""

    graph: str
    given: tuple[int, ...]
    """Values of the dims that an earlier boundary has determined."""
    dims: tuple[tuple[str, int], ...] = ()
    """The other dims of its tensors."""
    outputs: bool = False


@lru_cache(maxsize=_CHECKED_MAX)
def _boundaries(
    tokens: int, decode: tuple[int, int] | None, chunks: tuple[tuple[int, int], ...], samples: int, *, mixed: bool
) -> "tuple[_Boundary, ...]":
    """Return the boundaries of a step in the order in which the torch model crosses them; LAYER stands for all layers.

    `decode` is (rows with one new token, blocks of their longest table), None without such rows. `chunks` are (new
    tokens, blocks) of each chunk that reads KV pages. `samples` is the number of rows that sample a token. `mixed` is
    true when the step has other rows than decode rows.
    """
    found = [_Boundary(INPUTS, (), (("tokens", tokens), ("fed", tokens), ("samples", samples)))]
    if decode is not None:
        rows, width = decode
        found.append(_Boundary(decode_graph(mixed=mixed, by_page=False), (), (("rows", rows), ("width", width))))
    found += [_Boundary(CHUNK, (), (("new", new), ("width", width))) for new, width in chunks]
    found += [_Boundary(LAYER, (tokens,)), _Boundary(HEAD, (tokens,)), _Boundary(SAMPLE, (samples,))]
    if samples:
        found.append(_Boundary(SAMPLE, (samples,), outputs=True))
    return tuple(found)


def _samples(work: Work) -> int:
    return len(work.sampling) - work.sampling.count(None)
