"""The boundaries of one step of a model, and the contract that the tensors keep at each of them.

    prepare  input_ids, positions, slots, last_tokens                    --inputs-->
             block_tables, mask, and more by the kind of attention        --decode, chunk-->  forward
    forward  embed --layer--> layer 0 --layer--> layer 1 ... --head--> head --sample-->  sample
                   hidden_states, key_pages, value_pages                     logits
    sample   sampled                                                      --sample, outputs-->

The inputs of a layer are the outputs of the stage before it, so hidden states are checked between all stages. The
boundary `inputs` determines `tokens` and `samples`; later boundaries get their values.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from runtime.contract.binder import Binder, Tensor, Tensors
from runtime.contract.dims import Dim, Size
from runtime.contract.memory import dense_strides
from runtime.contract.spec import ITEM_BYTES, Contract, ContractKey, TensorFacts, TensorSpec
from runtime.contract.violation import ContractViolation, Rule, Violation
from runtime.core.env import Env
from runtime.core.work import NO_BLOCK, Work

INPUTS, CHUNK, LAYER, HEAD, SAMPLE = "inputs", "chunk", "layer", "head", "sample"
Result = TypeVar("Result")


def decode_graph(*, mixed: bool, by_page: bool) -> str:
    """The name of the boundary of decode rows. `mixed`: the batch has chunks too. `by_page`: pages are not gathered."""
    return f"decode{'_mixed' if mixed else ''}{'_by_page' if by_page else ''}"


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a model and its KV that fix shapes at the boundaries. Defaults are those of the embedded model."""

    layers: int = 3
    hidden: int = 192
    kv_heads: int = 4
    head_dim: int = 16
    vocabulary: int = 260
    blocks: int = 1
    """KV blocks, with the dummy block."""
    block_tokens: int = 16
    tokens_max: int | None = None
    samples_max: int | None = None
    device: str = "cpu"


def step_contracts(shape: ModelShape) -> tuple[Contract, ...]:
    """The contract of each boundary."""
    tokens, fed = Dim("tokens", 1, shape.tokens_max), Dim("fed", 1, shape.tokens_max)
    samples, rows, width = Dim("samples", 0, shape.samples_max), Dim("rows", 1), Dim("width", 1)
    heads, size = shape.kv_heads, shape.block_tokens

    def ids(name: str, *sizes: Size) -> TensorSpec:
        return TensorSpec(name, sizes, "int64", shape.device, alignment_bytes=8)

    def floats(name: str, *sizes: Size, width: int = 1, in_place: bool = False) -> TensorSpec:
        """A float32 tensor with rows of a multiple of `width` elements, aligned to at most 64 bytes."""
        alignment = math.gcd(64, width * ITEM_BYTES["float32"])
        return TensorSpec(name, sizes, "float32", shape.device, alignment_bytes=alignment, in_place=in_place)

    def decode(mixed: bool, by_page: bool) -> Contract:
        used = Dim("used", 1)
        inputs = [ids("block_tables", rows * heads * width), floats("mask", rows, 1, 1, width * size)]
        if mixed:
            inputs.append(ids("decode_tokens", rows))
        if by_page:
            inputs += [ids("owner", used), ids("order", rows * heads * width), ids("place", used)]
        return Contract(decode_graph(mixed=mixed, by_page=by_page), tuple(inputs))

    hidden = floats("hidden_states", tokens, shape.hidden, width=shape.hidden)
    pages = (shape.blocks * heads, size, shape.head_dim)
    return (
        Contract(
            INPUTS,
            # `tokens` may be padded. `fed` is the number of real tokens, whose KV is written: a slot for each KV head.
            (
                ids("input_ids", tokens),
                ids("positions", tokens),
                ids("slots", fed * heads),
                ids("last_tokens", samples),
            ),
        ),
        *(decode(mixed, by_page) for mixed in (False, True) for by_page in (False, True)),
        Contract(CHUNK, (ids("block_tables", heads * width), floats("mask", Dim("new", 1), width * size))),
        Contract(
            LAYER,
            (
                hidden,
                floats("key_pages", *pages, width=shape.head_dim, in_place=True),
                floats("value_pages", *pages, width=shape.head_dim, in_place=True),
            ),
            given=(tokens,),
        ),
        Contract(HEAD, (hidden,), given=(tokens,)),
        Contract(
            SAMPLE,
            (floats("logits", samples, shape.vocabulary, width=shape.vocabulary),),
            outputs=(ids("sampled", samples),),
            given=(samples,),
        ),
    )


class StepContract(Generic[Tensor]):
    """The contracts of one model. The thread that runs its steps checks tensors at each boundary.

    Counters: those of Binder; contract.rebuilt for each step that is prepared a second time, contract.refused for each
    step that breaks its contract the second time too.
    """

    def __init__(self, env: Env, tensors: Tensors[Tensor], shape: ModelShape, key: ContractKey | None = None) -> None:
        self.binder = Binder(env, tensors)
        self.shape = shape
        self._env = env
        self._contracts = {one.graph: replace(one, key=key or ContractKey()) for one in step_contracts(shape)}

    def attempt(self, work: Work, run: Callable[[], Result]) -> Result:
        """Runs a step, and runs it a second time when it breaks its contract. Raises ContractViolation when it does so
        again: requests in `ContractViolation.rows` (all when None) then get a 500."""
        self.binder.step, self.binder.request = work.step, ",".join(work.request_ids) or None
        try:
            return run()
        except ContractViolation:
            self._env.counters.hit("contract.rebuilt")
        try:
            return run()
        except ContractViolation:
            self._env.counters.hit("contract.refused")
            raise

    def cross(self, graph: str, tensors: tuple[Tensor, ...], *given: int, outputs: bool = False) -> tuple[Tensor, ...]:
        """Checks the tensors at the boundary `graph` and returns those to go on with. See Binder.cross."""
        return self.binder.cross(self._contracts[graph], tensors, given, outputs=outputs)

    def check_tables(self, work: Work) -> None:
        """Checks that each row's block table covers its context. Raises ContractViolation that names each row."""
        held = (work.block_tables != NO_BLOCK).sum(axis=1) * self.shape.block_tokens
        contexts = work.context_lens
        if np.count_nonzero(held < contexts):
            short = np.flatnonzero(held < contexts).tolist()
            self._env.counters.hit("contract.violation")
            expected = {row: f"a table for {contexts[row]} tokens" for row in short}
            raise ContractViolation(
                [Violation(INPUTS, "block_tables", Rule.EXTENT, expected[row], f"{held[row]}", row) for row in short]
            )

    def planned(self, graph: str, *given: int, outputs: bool = False, **dims: int) -> tuple[TensorFacts, ...]:
        """Facts of tensors that keep the contract of `graph` for these dims, for a device without memory."""
        contract = self._contracts[graph]
        values = {**dims, **{dim.name: value for dim, value in zip(contract.given, given, strict=True)}}
        shapes = [tuple(extent.value(values) for extent in spec.extents) for spec in contract.specs(outputs)]
        return tuple(
            TensorFacts(shape, dense_strides(shape), spec.dtype, spec.device, 0)
            for shape, spec in zip(shapes, contract.specs(outputs), strict=True)
        )
