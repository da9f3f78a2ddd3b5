"""What computing a prompt and copying a block cost, as seen on this device: a running mean over the last few of each.

They decide between swap and recompute, so they come from the run itself and not from a table.
"""

_WEIGHT = 0.25
"""Of the newest."""
_ODD = 4.0
"""Times the mean that one sample counts for at most: a launch that hung for 20 s says nothing of what tokens cost."""


class Rates:
    """Nanoseconds. Until something was measured, the guesses make a block worth copying."""

    def __init__(self, token_ns: float = 20_000.0, block_ns: float = 20_000.0) -> None:
        self.token_ns = token_ns
        """To compute one token of a prompt."""
        self.block_ns = block_ns
        """To copy one block, one way."""

    def computed(self, tokens: int, took_ns: int) -> None:
        """A launch with `tokens` tokens of prompts has landed."""
        self.token_ns = _mean(self.token_ns, took_ns / tokens)

    def copied(self, blocks: int, took_ns: int) -> None:
        """A copy has landed."""
        self.block_ns = _mean(self.block_ns, took_ns / blocks)


def _mean(mean: float, sample: float) -> float:
    return mean + _WEIGHT * (min(sample, _ODD * mean) - mean)
