"""A precomputed run of decode steps of the same rows: the sampled tokens and the KV.

step             1      2     ...    n         row r feeds the token at position starts[r] in step 1
ends_ns          [n]                           the end of each step
fed, drawn       [rows, n]                     the input token, and the sampled token
states           [rows, n]                     the state of the model in the slot of each fed token
prefix_hashes    [rows]                        the prefix hash of each row before step 1
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from runtime.core.work import Ints, Sampled, Words, Work
from runtime.device.hash_model import HashModel
from runtime.scheduling.batch import Batch, slots_of, tables_of
from runtime.scheduling.request import Request


@dataclass(frozen=True, slots=True)
class StepRun:
    """A run of `n` steps from launch number `first_step` on."""

    batch: Batch
    rows: tuple[Request, ...]
    first_step: int
    ends_ns: Sequence[int]
    starts: Ints
    fed: Ints
    drawn: Ints
    states: Words
    prefix_hashes: Words

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.ends_ns)

    def sampled(self, model: HashModel, row: int, first: int, end: int) -> list[Sampled]:
        """Return the samples of a row in the steps `first` to `end` - 1, counted from 0."""
        if self.rows[row].submit.sampling.logprobs is not None:
            return [model.sampled(int(state)) for state in self.states[row, first:end]]
        return [model.plain[token] for token in self.drawn[row, first:end].tolist()]

    def full_blocks(self, size: int) -> list[tuple[int, int]]:
        """Return (step, row), in order, for each block that is full behind a step; the last step is left out."""
        return sorted(
            (step, row)
            for row, start in enumerate(self.starts.tolist())
            for step in range(size - start % size, self.steps, size)
        )

    def work(self, size: int) -> Work:
        """Return the whole run as one launch that leaves the same KV. The rows hold blocks for every step."""
        n, rows = self.steps, len(self.rows)
        positions = (self.starts[:, None] + np.arange(n)).ravel()
        table, held = tables_of(self.rows)
        tables, row_starts = table.blocks[held], np.arange(0, n * rows + 1, n)
        _, slots = slots_of(tables, positions, row_starts, size)
        return Work(
            step=self.first_step,
            model_key=self.batch.model_key,
            request_ids=tuple([request.id for request in self.rows]),
            token_ids=self.fed.ravel(),
            positions=positions,
            slots=slots,
            row_starts=row_starts,
            context_lens=self.starts + n,
            block_tables=tables,
            sampling=(None,) * rows,
            prefix_hashes=self.prefix_hashes,
        )


def precompute(batch: Batch, step: int, ends_ns: Sequence[int], model: HashModel) -> StepRun | None:
    """Precompute the run that begins with the decode step `batch`.

    Return None when the last tokens of the rows do not follow from their KV.
    """
    rows, size = tuple([row.request for row in batch.rows]), model.block_tokens
    computed = [one.computed for one in rows]
    starts, last = np.asarray(computed), np.asarray([one.tokens[-1] for one in rows])
    slots = [one.blocks[(n - 1) // size] * size + (n - 1) % size for one, n in zip(rows, computed, strict=True)]
    found = model.decode_ahead(model.slots[slots], starts, last, len(ends_ns))
    if found is None:
        return None
    states, drawn = found
    fed = np.concatenate([last[:, None], drawn[:, :-1]], axis=1)
    table, held = tables_of(rows)
    return StepRun(batch, rows, step, ends_ns, starts, fed, drawn, states, table.prefix_hashes[held])
