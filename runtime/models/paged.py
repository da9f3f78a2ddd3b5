"""A model as a device runs it: decoder, its K and V, and the sampler, behind one call."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from runtime.core.work import Sampled, Work
from runtime.device.conversions import Conversions
from runtime.device.unowned import Unowned
from runtime.models.decoder import Decoder
from runtime.models.kv import PagedKv
from runtime.models.layout import Layout, lay_out
from runtime.models.sampler import sample


class PagedModel:
    """Runs one launch at a time, from one thread."""

    def __init__(self, decoder: Decoder, kv: PagedKv) -> None:
        self.decoder = decoder
        self.kv = kv
        self.unowned_bytes = {"prefill": 0, "decode": 0}
        """The most that torch allocated by itself in a launch of this phase, of those that were weighed: the first with
        twice as many rows as any before, since to weigh one takes about 8 ms."""
        self._counted: set[tuple[bool, int]] = set()
        self._weighed: set[tuple[bool, int]] = set()

    @torch.inference_mode()
    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        """Compute `work`, write its K and V, and draw one token for each row that asks for one.

        Raises OutOfMemory when the pools have no room for its activations.
        """
        layout, chunks = self._laid_out(work), work.tokens > work.rows
        about = (chunks, work.rows.bit_length())
        if about in self._weighed:
            return self._run(work, layout)
        with Unowned() as unowned:
            drawn = self._run(work, layout)
        phase = "prefill" if chunks else "decode"
        self.unowned_bytes[phase] = max(self.unowned_bytes[phase], unowned.bytes)
        self._weighed.add(about)
        return drawn

    @torch.inference_mode()
    def logits(self, work: Work) -> tuple[tuple[int, ...], Tensor]:
        """The rows that are sampled, and a copy of their logits; K and V are written as in `run`."""
        with self._logits(work, self._laid_out(work)) as (rows, logits):
            return rows, logits.clone()

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

    def _run(self, work: Work, layout: Layout) -> tuple[Sampled | None, ...]:
        result: list[Sampled | None] = [None] * work.rows
        with self._logits(work, layout) as (rows, logits):
            if rows:
                samplings = [sampling for sampling in work.sampling if sampling is not None]
                positions = [int(work.positions[work.row_starts[row + 1] - 1]) + 1 for row in rows]
                for row, sampled in zip(rows, sample(logits, samplings, positions), strict=True):
                    result[row] = sampled
        return tuple(result)

    @contextmanager
    def _logits(self, work: Work, layout: Layout) -> Iterator[tuple[tuple[int, ...], Tensor]]:
        """Logits in the step's own bytes, which are gone behind the `with`."""
        space = self.decoder.space
        try:
            at = space.begin(work.step, len(layout.tokens), len(layout.picked))
            yield layout.picked_rows, self.decoder.forward(layout, self.kv, at)
        finally:
            space.end()
