"""Poison: what comes back is overwritten, so that whoever still reads it gets a wrong answer that shows."""

from collections.abc import Callable

from runtime.memory.spans.adaptors.base import Adaptor
from runtime.memory.spans.placement import Place
from runtime.memory.spans.pool import Pool

SENTINEL = 0x5C
"""Repeated, it is a large and finite number as float16 (279), bfloat16 and float32 (2.5e17), float64 and any integer.
NaN would do more harm than good: padding rows are masked by a product with 0, and 0 * NaN is not 0."""


class Poison(Adaptor):
    """Fills through `fill(place, SENTINEL)` when a place goes back: after the launch that touches it, never earlier."""

    def __init__(self, inner: Pool, fill: Callable[[Place, int], None]) -> None:
        super().__init__(inner)
        self.filled_bytes = 0
        self._fill = fill
        inner.on_return(self._poison)

    def _poison(self, place: Place) -> None:
        self._fill(place, SENTINEL)
        self.filled_bytes += place.bytes
