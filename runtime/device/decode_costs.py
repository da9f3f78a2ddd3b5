"""The costs of consecutive decode launches of the same rows: bit-identical to the cost of each launch by itself.

    cost of step s = round(cost of its context in the table * jitter factor of step s)

In a run of decode steps the rows stay and each gains one token, so the mean context grows by one a step. Both factors
are slices of cached lists, which numpy computes for hundreds of contexts and thousands of steps at a time. The product
and its rounding are left to a Python loop: for at most STEPS_MAX steps it is faster than six array operations.
"""

import numpy as np

STEPS_MAX = 256
"""Maximum number of steps in a run of decode steps."""
FLOOR_NS = 1_000
"""Minimum cost of a launch (ns), so that no two launches end at the same time."""
_BLOCK = 4096
"""Number of steps whose jitter is computed at once."""
_GOLDEN = 0x9E3779B97F4A7C15
_53_BITS = (1 << 53) - 1


class Jitter:
    """Factors around 1 by which launches deviate from their cost. A factor is a hash of seed and step, not a draw from
    a random stream, so that no other draw can shift it."""

    def __init__(self, seed: int, share: float) -> None:
        """`seed` has 64 bits; factors are within 1 +- `share`."""
        self._share = share
        self._seed = seed
        self._block = -1
        self._factors: list[float] = []

    def factor(self, step: int) -> float:
        """Return the factor of one step."""
        unit = ((step * _GOLDEN + self._seed) >> 11 & _53_BITS) * 2.0**-52 - 1.0
        return 1.0 + self._share * unit

    def factors(self, step: int, n: int) -> list[float]:
        """Return the factors of `n` steps, at most STEPS_MAX, from `step` on."""
        assert n <= STEPS_MAX, f"a stretch of {n} steps is longer than {STEPS_MAX}"
        block, at = divmod(step, _BLOCK)
        if block != self._block:
            steps = np.arange(step - at, step - at + _BLOCK + STEPS_MAX, dtype=np.uint64)
            words = steps * np.uint64(_GOLDEN) + np.uint64(self._seed) >> np.uint64(11)
            units = words.astype(np.float64) * 2.0**-52 - 1.0
            self._block, self._factors = block, (1.0 + self._share * units).tolist()
        return self._factors[at : at + n]


def curve_of(contexts: tuple[int, ...], measured_ns: list[float], first: int) -> list[float]:
    """Return the costs of decode launches at 2 * STEPS_MAX contexts from `first` on, in whole ns without jitter. A run
    of steps that begins in the first half lies within them. `costs._interpolate` computes a single cost."""
    xs, ys, x = np.asarray(contexts), np.asarray(measured_ns, np.float64), np.arange(first, first + 2 * STEPS_MAX)
    if len(xs) == 1:
        costs = np.full(len(x), ys[0])
    else:
        at = np.clip(np.searchsorted(xs, x, "right"), 1, len(xs) - 1)
        slopes = (ys[at] - ys[at - 1]) / (xs[at] - xs[at - 1])
        costs = np.maximum(0.0, ys[at - 1] + slopes * (x - xs[at - 1]))
    whole: list[float] = np.maximum(float(FLOOR_NS), np.rint(costs)).tolist()  # half to even, as Python rounds
    return whole
