"""What decode launches one behind the other cost: the same integers as each by itself, to the bit.

    cost of step s = round(what the table says for its context * what jitter makes of step s)

Along a stretch the rows stay and each has a token more, so the mean context grows by one a step. Both factors are
slices of what is worked out once by arrays, some hundred contexts and some thousand steps at a time; what is left for a
step is a product and its rounding. A loop does these: between two turns of an engine the six operations on arrays that
would do them cost more, up to the longest stretch there is.
"""

import numpy as np

STEPS_MAX = 256
"""The longest stretch."""
FLOOR_NS = 1_000
"""No launch is quicker, so two launches never share a stamp."""
_BLOCK = 4096
"""Steps whose jitter is worked out at once."""
_GOLDEN = 0x9E3779B97F4A7C15
_53_BITS = (1 << 53) - 1


class Jitter:
    """By how much a launch is off its cost: a factor about 1, from seed and step alone. One multiply of the step's
    number: no stream of chance that another draw could shift."""

    def __init__(self, seed: int, share: float) -> None:
        """`seed` has 64 bits; `share` is half the width of the spread."""
        self._share = share
        self._seed = seed
        self._block = -1
        self._factors: list[float] = []

    def factor(self, step: int) -> float:
        """Of one step."""
        unit = ((step * _GOLDEN + self._seed) >> 11 & _53_BITS) * 2.0**-52 - 1.0
        return 1.0 + self._share * unit

    def factors(self, step: int, n: int) -> list[float]:
        """Of `n` steps from this one on."""
        assert n <= STEPS_MAX, f"a stretch of {n} steps is longer than {STEPS_MAX}"
        block, at = divmod(step, _BLOCK)
        if block != self._block:
            steps = np.arange(step - at, step - at + _BLOCK + STEPS_MAX, dtype=np.uint64)
            words = steps * np.uint64(_GOLDEN) + np.uint64(self._seed) >> np.uint64(11)
            units = words.astype(np.float64) * 2.0**-52 - 1.0
            self._block, self._factors = block, (1.0 + self._share * units).tolist()
        return self._factors[at : at + n]


def curve_of(contexts: tuple[int, ...], measured_ns: list[float], first: int) -> list[float]:
    """What decode launches of some rows cost from context `first` on, before jitter: whole ns, for twice STEPS_MAX
    contexts, so that a stretch which begins in the first half lies in it. `costs._line` does one of them."""
    xs, ys, x = np.asarray(contexts), np.asarray(measured_ns, np.float64), np.arange(first, first + 2 * STEPS_MAX)
    if len(xs) == 1:
        costs = np.full(len(x), ys[0])
    else:
        at = np.clip(np.searchsorted(xs, x, "right"), 1, len(xs) - 1)
        slopes = (ys[at] - ys[at - 1]) / (xs[at] - xs[at - 1])
        costs = np.maximum(0.0, ys[at - 1] + slopes * (x - xs[at - 1]))
    whole: list[float] = np.maximum(float(FLOOR_NS), np.rint(costs)).tolist()  # half to even, as Python rounds
    return whole
