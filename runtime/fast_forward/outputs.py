"""The client side of fast-forward: how many tokens the clients only read, and the delivery of many tokens at once."""

from collections.abc import Sequence
from typing import Protocol

from runtime.core.work import Sampled


class StepOutputs(Protocol):
    """The sink of the engine for the outputs of many steps."""

    def steps_ahead(self, requests: Sequence[str]) -> int:
        """Return the number of tokens that each client reads before any of them acts; 0 when one may act now."""
        ...

    def tell(self, requests: Sequence[str], stamps_ns: Sequence[int], tokens: Sequence[Sequence[Sampled]]) -> None:
        """Deliver `tokens` [requests][steps], sampled at the times `stamps_ns` [steps]."""
        ...
