"""What fast-forward asks of the clients' side: how far they will only listen, and to tell them many tokens at once."""

from collections.abc import Sequence
from typing import Protocol

from runtime.core.work import Sampled


class StepOutputs(Protocol):
    """The engine's sink, for the outputs of many steps."""

    def steps_ahead(self, requests: Sequence[str]) -> int:
        """After how many tokens each, at the earliest, one of these clients does anything but listen. 0: it may now."""
        ...

    def tell(self, requests: Sequence[str], stamps_ns: Sequence[int], tokens: Sequence[Sequence[Sampled]]) -> None:
        """`tokens` [requests][steps]: each request drew one at each of `stamps_ns` [steps]."""
        ...
