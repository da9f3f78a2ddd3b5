"""A model as a device runs it: decoder, its K and V, and the sampler, behind one call."""

import torch
from torch import Tensor

from runtime.core.work import Sampled, Work
from runtime.models.decoder import Decoder
from runtime.models.kv import PagedKv
from runtime.models.layout import lay_out
from runtime.models.sampler import sample


class PagedModel:
    """Runs one launch at a time, from one thread."""

    def __init__(self, decoder: Decoder, kv: PagedKv) -> None:
        self.decoder = decoder
        self.kv = kv

    @torch.inference_mode()
    def run(self, work: Work) -> tuple[Sampled | None, ...]:
        """Compute `work`, write its K and V, and draw one token for each row that asks for one."""
        result: list[Sampled | None] = [None] * work.rows
        rows, logits = self.logits(work)
        if rows:
            samplings = [sampling for sampling in work.sampling if sampling is not None]
            positions = [int(work.positions[work.row_starts[row + 1] - 1]) + 1 for row in rows]
            for row, sampled in zip(rows, sample(logits, samplings, positions), strict=True):
                result[row] = sampled
        return tuple(result)

    @torch.inference_mode()
    def logits(self, work: Work) -> tuple[tuple[int, ...], Tensor]:
        """The rows that are sampled, and their logits; K and V are written as in `run`."""
        layout = lay_out(work, self.kv, self.decoder.exact_mode)
        return layout.picked_rows, self.decoder.forward(layout, self.kv)
