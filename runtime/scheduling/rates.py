"""Measured times to compute a prompt token and to copy a block on this device, as running means.

Preemption chooses between swap and recompute by them, so they are measured in the run and not read from a table.
"""

_WEIGHT = 0.25
"""Weight of the newest sample in the running mean."""
_CLIP = 4.0
"""A sample counts for at most this multiple of the mean: a launch that hung for 20 s says nothing about the cost of a
token."""


class Rates:
    """Running means in nanoseconds. The initial guesses hold until the first sample and prefer a swap."""

    def __init__(self, token_ns: float = 20_000.0, block_ns: float = 20_000.0) -> None:
        self.token_ns = token_ns
        """Time to compute one token of a prompt."""
        self.block_ns = block_ns
        """Time to copy one block in one direction."""

    def computed(self, tokens: int, took_ns: int) -> None:
        """Record a completed launch of `tokens` prompt tokens that took `took_ns`."""
        self.token_ns = _mean(self.token_ns, took_ns / tokens)

    def copied(self, blocks: int, took_ns: int) -> None:
        """Record a completed copy of `blocks` blocks that took `took_ns`."""
        self.block_ns = _mean(self.block_ns, took_ns / blocks)


def _mean(mean: float, sample: float) -> float:
    return mean + _WEIGHT * (min(sample, _CLIP * mean) - mean)
