"""Runs the steps of a model in three parts, and checks the contract at each boundary (contract/step.py).

Work --prepare--> index tensors and masks --forward--> logits [samples, vocabulary] --sample--> one token a row
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from runtime.contract.spec import ContractKey
from runtime.contract.step import CHUNK, INPUTS, SAMPLE, ModelShape, StepContract, decode_graph
from runtime.core.env import Env
from runtime.core.work import Sampled, Work
from runtime.device.allocation_tracker import AllocationTracker
from runtime.device.conversions import Conversions
from runtime.device.facts import TorchTensors
from runtime.models.decoder import Decoder
from runtime.models.kv import PagedKv
from runtime.models.prepare import Chunk, DecodeRows, StepInputs, prepare
from runtime.models.sampler import choose, describe


class ModelRunner:
    """Runs one launch at a time, from one thread. Without `env` no fault can be armed and counters are not read."""

    def __init__(self, decoder: Decoder, kv: PagedKv, env: Env | None = None, key: ContractKey | None = None) -> None:
        self.decoder = decoder
        self.kv = kv
        self._env = env or Env.quiet()
        self.contract = StepContract(self._env, TorchTensors(), _shape(decoder, kv), key)
        self.unowned_bytes = {"prefill": 0, "decode": 0}
        """Phase -> the most bytes that torch allocated by itself in a measured launch. A launch is measured when it is
        the first with its power of two of rows, since measuring takes about 8 ms."""
        self.conversions = {"prefill": 0, "decode": 0}
        """Phase -> the most layout conversions in a measured launch."""
        self._measured: set[tuple[bool, int]] = set()

    @torch.inference_mode()
    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        """Computes `work`, writes its K and V, and samples one token for each row that asks for one.

        Raises OutOfMemory when the pools have no room for its activations, and ContractViolation when a tensor of the
        step breaks its contract twice.
        """
        return self.contract.attempt(work, lambda: self._measured_step(work))

    @torch.inference_mode()
    def logits(self, work: Work) -> tuple[tuple[int, ...], Tensor]:
        """The rows that are sampled and a copy of their logits [samples, vocabulary]. K and V are written as in `run`.

        Raises OutOfMemory and ContractViolation.
        """
        inputs = self.prepare(work)
        with self._forward(work, inputs) as logits:
            return inputs.sampled_rows, logits.clone()

    def prepare(self, work: Work) -> StepInputs:
        """The tensors that the decoder reads for `work`. Raises ContractViolation when one breaks its contract."""
        self.contract.check_tables(work)
        inputs = prepare(work, self.kv, self.decoder.batch_invariant)
        made = inputs.tokens, inputs.positions, inputs.slots, inputs.last_tokens
        held = self.contract.cross(INPUTS, made)
        decode = self._held_decode(inputs.decode) if inputs.decode is not None else None
        chunks = tuple([self._held_chunk(chunk) for chunk in inputs.chunks])
        tokens, positions, slots, last_tokens = held
        return StepInputs(tokens, positions, inputs.count, slots, decode, chunks, last_tokens, inputs.sampled_rows)

    def _held_decode(self, decode: DecodeRows) -> DecodeRows:
        made = decode.tensors
        held = self.contract.cross(decode_graph(mixed=decode.at is not None, by_page=decode.run is not None), made)
        return decode if held is made else decode.with_tensors(held)

    def _held_chunk(self, chunk: Chunk) -> Chunk:
        if chunk.mask is None:
            return chunk
        made = chunk.pages, chunk.mask
        held = self.contract.cross(CHUNK, made)
        return chunk if held is made else replace(chunk, pages=held[0], mask=held[1])

    @contextmanager
    def _forward(self, work: Work, inputs: StepInputs) -> Iterator[Tensor]:
        """Computes the logits. They lie in the workspace of the step and are valid inside of the `with` only."""
        space = self.decoder.space
        try:
            buffers = space.begin(work.step, len(inputs.tokens), len(inputs.last_tokens))
            logits = self.decoder.forward(inputs, self.kv, buffers, self.contract)
            yield self.contract.cross(SAMPLE, (logits,), len(inputs.sampled_rows))[0]
        finally:
            space.end()

    def _sample(self, work: Work, inputs: StepInputs, logits: Tensor) -> tuple[Sampled | None, ...]:
        rows = inputs.sampled_rows
        result: list[Sampled | None] = [None] * work.rows
        if rows:
            samplings = [sampling for sampling in work.sampling if sampling is not None]
            positions = (work.positions[work.row_starts[1:][list(rows)] - 1] + 1).tolist()
            chosen = choose(logits, samplings, positions)
            (sampled,) = self.contract.cross(SAMPLE, (chosen,), len(rows), outputs=True)
            for row, one in zip(rows, describe(sampled, logits, samplings), strict=True):
                result[row] = one
        return tuple(result)

    def _step(self, work: Work) -> tuple[Sampled | None, ...]:
        inputs = self.prepare(work)
        with self._forward(work, inputs) as logits:
            return self._sample(work, inputs, logits)

    def _measured_step(self, work: Work) -> tuple[Sampled | None, ...]:
        """Runs a step. When its power of two of rows is new, counts torch's own allocations and layout conversions."""
        prefill = work.tokens > work.rows
        about = (prefill, work.rows.bit_length())
        if about in self._measured or self._env.faults.armed:  # a fault's allocations are not the model's
            return self._step(work)
        with AllocationTracker() as unowned, Conversions() as conversions:
            drawn = self._step(work)
        phase = "prefill" if prefill else "decode"
        self.unowned_bytes[phase] = max(self.unowned_bytes[phase], unowned.bytes)
        self.conversions[phase] = max(self.conversions[phase], conversions.total)
        self._measured.add(about)
        return drawn


def _shape(decoder: Decoder, kv: PagedKv) -> ModelShape:
    config = decoder.config
    return ModelShape(
        config.layers,
        config.hidden,
        config.kv_heads,
        config.head_dim,
        config.vocabulary,
        blocks=kv.blocks + 1,
        block_tokens=kv.block_tokens,
    )
