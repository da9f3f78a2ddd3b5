"""Runs warm-up launches: the first launches of a process pay for threads, code paths and scratch memory.

Without them the first request took 1.7 s on a busy two-core machine, and with a deadline of 2 s sometimes got a 504.
"""

from contextlib import suppress

import numpy as np

from runtime.core.errors import RuntimeFailure
from runtime.core.work import Sampling, Work
from runtime.models.runner import ModelRunner

PROMPT_TOKENS = 48
ROWS = (1, 4, 16)


def warm_up(model: ModelRunner, dummy_block: int, block_tokens: int) -> None:
    """Runs a prompt and a few decode batches whose KV all goes to the dummy block.

    A launch that an armed fault fails is not repeated.
    """
    for lengths, start in (([PROMPT_TOKENS], 0), *(([1] * rows, PROMPT_TOKENS) for rows in ROWS)):
        with suppress(RuntimeFailure):
            model.run(_work(lengths, start, dummy_block, block_tokens))


def _work(lengths: list[int], start: int, dummy_block: int, block_tokens: int) -> Work:
    """Work for rows of `lengths` new tokens from position `start` on; every block of every table is the dummy."""
    row_starts = np.cumsum([0, *lengths])
    positions = np.concatenate([np.arange(start, start + length) for length in lengths])
    width = -(-(start + max(lengths)) // block_tokens)
    return Work(
        step=0,
        model_key="",
        request_ids=tuple(f"warm{row}" for row in range(len(lengths))),
        token_ids=np.ones(len(positions), np.int64),
        positions=positions,
        slots=dummy_block * block_tokens + positions % block_tokens,
        row_starts=row_starts,
        context_lens=np.asarray(lengths) + start,
        block_tables=np.full((len(lengths), width), dummy_block),
        sampling=tuple(Sampling(logprobs=2) for _ in lengths),
        prefix_hashes=np.zeros(len(lengths), np.uint64),
    )
