"""The most KV blocks that a set of requests will hold at once, if each goes on as long as it is expected to.

    tokens |        /|  longest answer last: when it ends, the others have ended before
           |   /|  / |
           |  / | /  |
           '----------- steps

Each request grows by a token a step until it ends, so the sum is largest just before one of them does. Ordered by what
is still to come, longest first, the i-th's end sees the first i alive. (LightLLM's admission; runtime.md 2.35.)
"""

from collections.abc import Iterable


def peak_blocks(lives: Iterable[tuple[int, int]], block_tokens: int) -> int:
    """`lives`: (tokens now, tokens still to come) of each. Rounds each request up to whole blocks."""
    peak = held = 0
    for alive, (now, to_come) in enumerate(sorted(lives, key=_longest_first), 1):
        held += now
        peak = max(peak, (held + alive * to_come) // block_tokens + alive)
    return peak


def _longest_first(life: tuple[int, int]) -> int:
    return -life[1]
