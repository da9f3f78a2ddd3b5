"""A model as a device runs it: decoder, its K and V, and the sampler, behind one call."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from runtime.core.work import Sampled, Work
from runtime.device.conversions import Conversions
from runtime.models.decoder import Decoder
from runtime.models.kv import PagedKv
from runtime.models.layout import Layout, lay_out
from runtime.models.sampler import sample


class PagedModel:
    """Runs one launch at a time, from one thread."""

    def __init__(self, decoder: Decoder, kv: PagedKv) -> None:
        self.decoder = decoder
        self.kv = kv
        self._counted: set[tuple[bool, int]] = set()

    @torch.inference_mode()
    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        """Compute `work`, write its K and V, and draw one token for each row that asks for one.

        Raises OutOfMemory when the pools have no room for its activations.
        """
        result: list[Sampled | None] = [None] * work.rows
        with self._logits(work) as (rows, logits):
            if rows:
                samplings = [sampling for sampling in work.sampling if sampling is not None]
                positions = [int(work.positions[work.row_starts[row + 1] - 1]) + 1 for row in rows]
                for row, sampled in zip(rows, sample(logits, samplings, positions), strict=True):
                    result[row] = sampled
        return tuple(result)

    @torch.inference_mode()
    def logits(self, work: Work) -> tuple[tuple[int, ...], Tensor]:
        """The rows that are sampled, and a copy of their logits; K and V are written as in `run`."""
        with self._logits(work) as (rows, logits):
            return rows, logits.clone()

    @contextmanager
    def _logits(self, work: Work) -> Iterator[tuple[tuple[int, ...], Tensor]]:
        """Logits in the step's own bytes, which are gone behind the `with`."""
        layout, space = self._laid_out(work), self.decoder.space
        try:
            at = space.begin(work.step, len(layout.tokens), len(layout.picked))
            yield layout.picked_rows, self.decoder.forward(layout, self.kv, at)
        finally:
            space.end()

    def _laid_out(self, work: Work) -> Layout:
        """Conversions are counted where a batch shape is new: at every launch that would cost 7 % of a small step."""
        shape = (work.tokens > work.rows, work.rows)
        if shape in self._counted:
            return lay_out(work, self.kv, self.decoder.exact_mode)
        with Conversions("step") as conversions:
            layout = lay_out(work, self.kv, self.decoder.exact_mode)
        conversions.refuse()
        self._counted.add(shape)
        return layout
