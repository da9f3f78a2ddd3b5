"""The peak of KV blocks that a set of requests holds at once, if each generates as many tokens as expected.

    tokens |        /|  the longest answer ends last: the others have ended before
           |   /|  / |
           |  / | /  |
           '----------- steps

Each request grows by one token a step until it ends, so the sum is largest just before an end. When requests are sorted
by tokens to come, most first, exactly the first i of them are running when the i-th ends. LightLLM admits requests by
this rule.
"""

from collections.abc import Iterable


def peak_blocks(growth: Iterable[tuple[int, int]], block_tokens: int) -> int:
    """Return the peak in blocks. `growth`: (tokens now, tokens to come) per request; each is rounded up to blocks."""
    peak = held = 0
    for alive, (now, to_come) in enumerate(sorted(growth, key=_by_tokens_to_come), 1):
        held += now
        peak = max(peak, (held + alive * to_come) // block_tokens + alive)
    return peak


def _by_tokens_to_come(entry: tuple[int, int]) -> int:
    return -entry[1]
