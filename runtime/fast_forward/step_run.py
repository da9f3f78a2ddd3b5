"""A run of decode steps of the same rows, precomputed: the tokens they draw and what they leave in KV.

step          1      2     ...    n            row r feeds its token at place starts[r] in step 1
ends_ns      [n]                               when each step ends
fed, drawn   [rows, n]                         the token that goes in, and the one that comes out
states       [rows, n]                         what the model keeps in the slot of each fed token
prefix_hashes     [rows]                            the running tag hash of each row before step 1
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from runtime.core.work import Ints, Sampled, Work
from runtime.device.hash_model import HashModel, Words
from runtime.memory.kv.sequence_tags import flush_hashes
from runtime.scheduling.batch import Batch, slots_of
from runtime.scheduling.request import Request


@dataclass(frozen=True, slots=True)
class StepRun:
    """`n` steps from launch number `first_step` on."""

    batch: Batch
    rows: tuple[Request, ...]
    first_step: int
    ends_ns: Sequence[int]
    starts: Ints
    fed: Ints
    drawn: Ints
    states: Words
    prefix_hashes: tuple[int, ...]

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return len(self.ends_ns)

    def sampled(self, model: HashModel, row: int, first: int, end: int) -> list[Sampled]:
        """What steps `first` up to before `end`, counted from 0, give a row."""
        if self.rows[row].submit.sampling.logprobs is not None:
            return [model.sampled(int(state)) for state in self.states[row, first:end]]
        return [model.plain[token] for token in self.drawn[row, first:end].tolist()]

    def full_blocks(self, size: int) -> list[tuple[int, int]]:
        """(step, row) wherever a row's block is full behind a step, in order; the last step is left out."""
        return sorted(
            (step, row)
            for row, start in enumerate(self.starts.tolist())
            for step in range(size - start % size, self.steps, size)
        )

    def work(self, size: int) -> Work:
        """All of it as one launch, which would leave the same in KV. The rows hold blocks for every step."""
        n, rows = self.steps, len(self.rows)
        positions = (self.starts[:, None] + np.arange(n)).ravel()
        tables = tuple([request.blocks for request in self.rows])
        _, slots = slots_of(tables, self.starts.tolist(), positions, [n] * rows, size)
        return Work(
            step=self.first_step,
            model_key=self.batch.model_key,
            request_ids=tuple([request.id for request in self.rows]),
            token_ids=self.fed.ravel(),
            positions=positions,
            slots=slots,
            row_starts=np.arange(0, n * rows + 1, n),
            context_lens=self.starts + n,
            block_tables=tables,
            sampling=(None,) * rows,
            prefix_hashes=self.prefix_hashes,
        )


def precompute(batch: Batch, step: int, ends_ns: Sequence[int], model: HashModel) -> StepRun | None:
    """The run of `batch`, a decode step, and those behind it; None where KV does not lead to the rows' last tokens."""
    rows, size = tuple([row.request for row in batch.rows]), model.block_tokens
    computed = [one.computed for one in rows]
    starts, last = np.asarray(computed), np.asarray([one.tokens[-1] for one in rows])
    slots = [one.blocks[(n - 1) // size] * size + (n - 1) % size for one, n in zip(rows, computed, strict=True)]
    found = model.decode_ahead(model.slots[slots], starts, last, len(ends_ns))
    if found is None:
        return None
    states, drawn = found
    fed = np.concatenate([last[:, None], drawn[:, :-1]], axis=1)
    tags = [one.tags for one in rows]
    flush_hashes(tags)
    prefix_hashes = tuple([one.prefix_hash for one in tags])
    return StepRun(batch, rows, step, ends_ns, starts, fed, drawn, states, prefix_hashes)
